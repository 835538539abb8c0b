// Package host carries out what package transition decides: it is the one place in which
// nstance-paver changes its host.
//
// Every step may be carried out again after a crash at any instruction, and leads to the same end.
// Nothing is decided here but how; whether it is time is known to the caller.
package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"nstance.dev/agent/durable"
	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/manifest"
	"nstance.dev/agent/paver/network"
	"nstance.dev/agent/paver/policy"
	"nstance.dev/agent/paver/preflight"
	"nstance.dev/agent/paver/render"
	"nstance.dev/agent/paver/slot"
	"nstance.dev/agent/paver/transition"
	"nstance.dev/agent/paver/tree"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Host is this host. It has one user at a time, and [Host.Survey] beside it. Make one with [New].
type Host struct {
	opts    Options
	planner planner
	slots   slot.Slots
	survey  survey
}

// New returns a Host. It changes nothing.
func New(opts Options) *Host {
	if opts.Name == nil {
		opts.Name = journal.Slot.Machine
	}
	if opts.Policy == nil {
		opts.Policy = func() (policy.Policy, error) { return policy.Load(policy.Path) }
	}
	if opts.Network == nil {
		opts.Network = network.Host
	}
	if opts.Disk.Free == nil {
		opts.Disk.Free = free
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Disk.Shares == nil {
		opts.Disk.Shares = tree.Shares
	}
	h := &Host{
		opts: opts, slots: slot.Slots{Machines: opts.Machines, Name: opts.Name},
		survey: survey{ask: make(chan struct{}, 1), seen: map[render.Place]manifest.Manifest{}},
	}
	if h.opts.Probe == nil {
		h.opts.Probe = preflight.Prober{MachinesDir: opts.Machines, Own: h.own}.Probe
	}
	h.planner = planner{&h.opts}
	return h
}

// Work is a step to be carried out, and what it is about.
type Work struct {
	Step    transition.Step
	Journal journal.Journal
	// Assignment is the last accepted one; nil if there is none.
	Assignment *assignment.Assignment
	// Credential of the assignment that is under way; nil if there is none that can be used.
	Credential *nstancev1.MachineCredential
}

// Do carries a step out. Steps that only write the journal do nothing here.
func (h *Host) Do(ctx context.Context, w Work) (transition.Result, error) {
	switch w.Step.Kind {
	case transition.KillSlot:
		return transition.Result{}, h.opts.Runner.Kill(ctx, w.Step.Slot)
	case transition.StopSlot:
		return transition.Result{}, h.stop(ctx, w.Step.Slot, timeouts(w))
	case transition.StopKubelet:
		return transition.Result{}, h.stopKubelet(ctx, w)
	case transition.GiveUp:
		// A newer assignment may have taken the place of one that had stopped it already.
		return transition.Result{}, errors.Join(h.startKubelet(ctx, w.Step.Slot, "start"), h.opts.Runner.Enable(ctx, w.Step.Slot))
	case transition.Refuse:
		return transition.Result{}, h.startKubelet(ctx, w.Step.Slot, "start")
	case transition.TakeOver:
		// A kubelet makes its Node when it starts, and not again if that was deleted before anybody missed it.
		return transition.Result{}, h.startKubelet(ctx, w.Step.Slot, "restart")
	case transition.FetchRoot:
		return transition.Result{}, h.fetch(ctx, w)
	case transition.BuildSlot, transition.RefreshSlot:
		return transition.Result{}, h.build(ctx, w)
	case transition.RecordHost:
		return h.record(ctx, w)
	case transition.CheckGuards:
		return transition.Result{}, h.guard(ctx, w)
	case transition.RetireSlot:
		return transition.Result{}, h.retire(ctx, w)
	case transition.BootSlot:
		return h.boot(ctx, w)
	case transition.StartActive:
		return h.start(ctx, w)
	case transition.LookAgain:
		return h.running(ctx, w.Step.Slot)
	case transition.EnableSlot:
		return transition.Result{}, h.opts.Runner.Enable(ctx, w.Step.Slot)
	case transition.SweepSlots:
		return transition.Result{}, errors.Join(h.slots.Sweep(), h.opts.Images.Trim(ctx))
	case transition.FreeSlot:
		return transition.Result{}, h.free(w.Step.Slot)
	case transition.ResetHost:
		if err := h.planner.mayReset(*w.Assignment); err != nil {
			return transition.Result{}, err
		}
		return transition.Result{}, h.Reset(ctx, w.Journal, w.Assignment.Wipe)
	}
	return transition.Result{}, nil
}

func timeouts(w Work) assignment.Timeouts {
	if t := w.Journal.Transition; t != nil {
		return t.Assignment.Timeouts.WithDefaults()
	}
	return assignment.Timeouts{}.WithDefaults()
}

// slotFile is what a slot was built from; what is set on the host for it follows from that again.
func (h *Host) slotFile(s journal.Slot) string {
	return filepath.Join(h.opts.Dir, "slot-"+string(s)+".json")
}

func (h *Host) writeSlotFile(s journal.Slot, a assignment.Assignment) error {
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("write assignment of a slot: %w", err)
	}
	return durable.WriteFile(h.slotFile(s), text, 0o600)
}

// Built is what a slot was built from.
func (h *Host) Built(s journal.Slot) (a assignment.Assignment, ok bool, err error) {
	text, err := os.ReadFile(h.slotFile(s))
	if errors.Is(err, fs.ErrNotExist) {
		return a, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		return a, false, fmt.Errorf("read assignment of %s: %w", h.opts.Name(s), err)
	}
	return a, true, nil
}
