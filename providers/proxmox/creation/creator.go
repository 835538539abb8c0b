// Package creation makes machines: it chooses a node, clones a template there, configures
// the clone and starts it.
//
// There is no call that makes a machine, but a row of tasks, [stage] by stage. What has been
// reached is remembered in a [Registry], and the same create goes on there. A create that
// fails for good removes what it has made first; only if that fails too is its outcome open.
//
// Two may ask for the same number at once. Whoever loses learns it from the task, and takes
// the next one. If the answer to a clone is lost, the same number is asked for again, so that
// there are never two machines.
//
// Locks: the registry's mutex comes before those of the clones' turns, for a create that is
// forgotten gives its storage back. That of the numbers is taken alone. None is held over a
// call of the API; the choice of a node runs under the registry's, and asks nothing.
package creation

import (
	"log/slog"
	"time"

	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/locks"
	"nstance.dev/providers/proxmox/machines"
)

// Options are the settings of a [Creator]. All are required.
type Options struct {
	API        *api.Client
	Machines   *machines.Machines
	Registry   *Registry
	ISOStorage string // of the machines' CDs
	// CommittedMemory: the memory of a node counts as free that is left if every guest takes all
	// that it may; else what none has touched.
	CommittedMemory bool
	ParallelClones  int // onto one storage at once; 0: one
	Log             *slog.Logger
	Now             func() time.Time
}

// Creator makes the machines of one cluster. Make it with [New]. One call at a time may
// create or undo an instance; calls for different ones run beside each other.
type Creator struct {
	opts     Options
	api      *api.Client
	machines *machines.Machines
	reg      *Registry
	numbers  numbers
	clones   locks.ByName // of storages
}

// New returns a creator. It asks nothing.
func New(o Options) *Creator {
	return &Creator{opts: o, api: o.API, machines: o.Machines, reg: o.Registry, clones: locks.ByName{Width: o.ParallelClones}}
}
