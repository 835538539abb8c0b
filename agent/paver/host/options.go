package host

import (
	"context"
	"log/slog"
	"time"

	"nstance.dev/agent/paver/artifact"
	"nstance.dev/agent/paver/facts"
	"nstance.dev/agent/paver/image"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/network"
	"nstance.dev/agent/paver/policy"
	"nstance.dev/agent/paver/preflight"
	"nstance.dev/agent/paver/runner"
	"nstance.dev/agent/paver/settings"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Images fetches what node machines are built from.
type Images interface {
	// Fetch makes what an assignment needs available on this host, verified.
	Fetch(ctx context.Context, a *nstancev1.MachineAssignment, c *nstancev1.MachineCredential) error
	// Root is the tree that a machine begins as a copy of. It does not change until release is
	// called. It is fetched if it has gone.
	Root(ctx context.Context, a *nstancev1.MachineAssignment, c *nstancev1.MachineCredential) (dir string, release func(), err error)
	// Install puts the programs of an assignment into a tree, and returns what it has written.
	Install(ctx context.Context, a *nstancev1.MachineAssignment, dir string) ([]artifact.File, error)
	// Size is what is known of how much an assignment's image takes. Nothing is fetched.
	Size(a *nstancev1.MachineAssignment) (image.Size, error)
	// Trim removes what is not needed for the last of the assignments.
	Trim(ctx context.Context) error
	// Clear removes everything.
	Clear() error
}

// Disk is what is asked of the disks of a host; the zero Disk asks this one's.
type Disk struct {
	// Free is how many bytes can be written below a path; nil: the file system is asked.
	Free func(path string) (free, total uint64, err error)
	// Shares says whether a copy of a tree in a directory shares the content with it; nil: it is tried.
	Shares func(from, to string) bool
}

// Options are what a Host works with. Dir, Machines, Runner, Images and Log are required.
type Options struct {
	Dir      string // the paver's own directory
	Machines string // of the slots' trees
	Name     func(journal.Slot) string
	Runner   runner.Runner
	Images   Images
	Mode     preflight.Mode                // of Runner
	Policy   func() (policy.Policy, error) // read at every use; nil: that of [policy.Path]
	Settings settings.Host
	Facts    facts.Options
	Network  network.Run // nil: programs of this host
	// Reachable says whether the API server of an assignment can be reached; nil: not asked.
	Reachable func(ctx context.Context, a *nstancev1.MachineAssignment) error
	Disk      Disk
	// Probe looks at this host; nil: [preflight.Prober] does.
	Probe func(ctx context.Context, t preflight.Targets) (preflight.Facts, error)
	Log   *slog.Logger
	Now   func() time.Time // time.Now
}
