// Package runner is the boundary between nstance-paver and systemd-nspawn: a [Runner] starts,
// stops and looks into the node machines of a host's two slots.
//
// It decides nothing. What is to run follows from the journal, in package transition. The
// implementations are service, where systemd is PID 1 of the host, direct, where it is not, and
// fake, in memory; one contract, package runnertest, holds for all of them.
package runner

import (
	"context"
	"errors"
	"time"

	"nstance.dev/agent/paver/command"
	"nstance.dev/agent/paver/journal"
)

// State is what a slot's machine does.
type State struct {
	Phase journal.Phase
	// BootID is the machine's own, which is new with every boot; empty while it is not known.
	BootID    string
	StartedAt time.Time
	Leader    journal.Leader
}

// ErrNotRunning is matched by the error about a machine that does not run.
var ErrNotRunning = errors.New("the machine does not run")

// Runner runs the machines of two slots. All methods may be repeated, and may be called by one
// goroutine at a time for each slot.
type Runner interface {
	// Boot starts the slot's machine and returns once its systemd answers. Where it runs already
	// that is all. What is left over of an earlier machine is killed first. An error leaves the
	// machine as it is, also if that is half started: who gives up calls Kill.
	Boot(ctx context.Context, slot journal.Slot) error

	// Stop halts the machine in an orderly way and kills it when grace is over. Nil: nothing runs.
	Stop(ctx context.Context, slot journal.Slot, grace time.Duration) error

	// Kill ends every process of the slot's machine at once. Nil: nothing runs, whatever did.
	Kill(ctx context.Context, slot journal.Slot) error

	// State looks at the slot's machine.
	State(ctx context.Context, slot journal.Slot) (State, error)

	// Exec runs a command in the machine; no shell reads it. A code other than 0 is no error; an
	// error says that the command did not run or was ended with ctx. Without a machine it
	// matches ErrNotRunning.
	Exec(ctx context.Context, slot journal.Slot, argv ...string) (command.Output, error)

	// Enable makes the slot's machine the only one that starts with the host; journal.None makes
	// none start. Where machines never start by themselves it does nothing.
	Enable(ctx context.Context, slot journal.Slot) error
}
