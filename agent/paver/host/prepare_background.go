package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"

	"nstance.dev/agent/paver/artifact"
	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/slot"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Preparation is something that is prepared while the machine of the host runs.
type Preparation struct {
	Assignment assignment.Assignment
	// Slot is the idle slot, which is built; None: image and artifacts are fetched, and no more.
	Slot journal.Slot
	// PullSecrets by name; nil: none.
	PullSecrets map[string][]byte
}

// Background prepares machines on a host.
type Background struct{ Host *Host }

// Prepare prepares a machine (M64). It may be called beside everything else that is done to the Host, for a
// slot that nothing else is done to. The caller's thread has the lowest priority afterwards and should end.
func (b Background) Prepare(ctx context.Context, p Preparation) error {
	h := b.Host
	giveWay(h.opts.Log)
	credential := &nstancev1.MachineCredential{PullSecrets: p.PullSecrets}
	about := p.Slot
	if about == journal.None {
		about = journal.A // what is fetched does not depend on it
	}
	m, plan, err := h.planner.plan(p.Assignment, about, nil)
	if err != nil {
		return err
	}
	if p.Slot == journal.None {
		if err := h.planner.fit(ctx, p.Assignment); err != nil {
			return err
		}
		return h.opts.Images.Fetch(ctx, m, credential)
	}
	if state, err := h.opts.Runner.State(ctx, p.Slot); err != nil || state.Phase != journal.Absent && state.Phase != journal.Failed {
		return errors.Join(err, fmt.Errorf("%s is not idle", h.opts.Name(p.Slot)))
	}
	if err := h.free(p.Slot); err != nil { // first, so that what it takes is there for the new one
		return err
	}
	root, release, err := h.opts.Images.Root(ctx, m, credential)
	if err != nil {
		return err
	}
	defer release()
	if err := os.MkdirAll(h.opts.Machines, 0o700); err != nil {
		return fmt.Errorf("make directory of machines: %w", err)
	}
	if err := b.room(ctx, root); err != nil {
		return err
	}
	var programs []artifact.File
	err = h.slots.Build(ctx, p.Slot, slot.Contents{
		Root: root, Hash: p.Assignment.Configuration.Hash, Files: open(plan),
		Install: func(ctx context.Context, dir string) (err error) {
			programs, err = h.opts.Images.Install(ctx, m, dir)
			return err
		},
	})
	if err != nil {
		return err
	}
	return h.built(p.Slot, p.Assignment, plan, programs)
}

// room says why a machine is not prepared though it could be built: what is prepared is deleted first when
// the disk is nearly full, so more has to be left than for a machine that is needed now.
func (b Background) room(ctx context.Context, root string) error {
	_, total, err := b.Host.opts.Disk.Free(b.Host.opts.Machines)
	if err != nil {
		return err
	}
	return b.Host.room(ctx, root, max(keepFree, total/keepFreePart))
}

// giveWay gives the calling thread the lowest priority for processor and disk. That it cannot be given is
// no reason not to go on.
func giveWay(log *slog.Logger) {
	const (
		lowest     = 19
		ofProcess  = 1       // IOPRIO_WHO_PROCESS: of one thread
		idleClass  = 3 << 13 // IOPRIO_CLASS_IDLE
		thisThread = 0
	)
	err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), lowest)
	if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, ofProcess, thisThread, idleClass); errno != 0 {
		err = errors.Join(err, errno)
	}
	if err != nil {
		log.Warn("what is prepared has the priority of the rest", "error", err)
	}
}
