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
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"nstance.dev/agent/durable"
	"nstance.dev/agent/paver/artifact"
	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/facts"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/manifest"
	"nstance.dev/agent/paver/network"
	"nstance.dev/agent/paver/policy"
	"nstance.dev/agent/paver/preflight"
	"nstance.dev/agent/paver/render"
	"nstance.dev/agent/paver/runner"
	"nstance.dev/agent/paver/settings"
	"nstance.dev/agent/paver/slot"
	"nstance.dev/agent/paver/transition"
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
	// Trim removes what is not needed for the last of the assignments.
	Trim(ctx context.Context) error
	// Clear removes everything.
	Clear() error
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
	// Free is how many bytes can be written below a path; nil: the file system is asked.
	Free func(path string) (free, total uint64, err error)
	Log  *slog.Logger
	Now  func() time.Time // time.Now
}

// Host is this host. It has one user at a time, and [Host.Survey] beside it. Make one with [New].
type Host struct {
	opts   Options
	slots  slot.Slots
	survey survey
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
	if opts.Free == nil {
		opts.Free = free
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Host{
		opts: opts, slots: slot.Slots{Machines: opts.Machines, Name: opts.Name},
		survey: survey{ask: make(chan struct{}, 1), seen: map[render.Place]manifest.Manifest{}},
	}
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
	case transition.GiveUp, transition.TakeOver, transition.Refuse:
		return transition.Result{}, h.startKubelet(ctx, w.Step.Slot)
	case transition.FetchRoot:
		return transition.Result{}, h.fetch(ctx, w)
	case transition.BuildSlot, transition.RefreshSlot:
		return transition.Result{}, h.build(ctx, w)
	case transition.CheckGuards:
		return transition.Result{}, h.guard(ctx, w)
	case transition.RetireSlot:
		return h.retire(ctx, w)
	case transition.BootSlot, transition.StartActive:
		return h.boot(ctx, w)
	case transition.LookAgain:
		return h.running(ctx, w.Step.Slot)
	case transition.EnableSlot:
		return transition.Result{}, h.opts.Runner.Enable(ctx, w.Step.Slot)
	case transition.SweepSlots:
		return transition.Result{}, errors.Join(h.slots.Sweep(), h.opts.Images.Trim(ctx))
	case transition.FreeSlot:
		return transition.Result{}, h.free(w.Step.Slot)
	case transition.ResetHost:
		if err := h.mayReset(*w.Assignment); err != nil {
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

// plan is what is written for a slot's machine. Without a credential the secret files in it are
// placeholders.
func (h *Host) plan(a assignment.Assignment, s journal.Slot, c *nstancev1.MachineCredential) (*nstancev1.MachineAssignment, render.Plan, error) {
	return h.render(a, s, c, h.judge)
}

// planAgain is what was written for a slot's machine that has run before. What the policy says today
// is no reason to keep that one down: of it only the SSH keys follow.
func (h *Host) planAgain(a assignment.Assignment, s journal.Slot) (render.Plan, error) {
	_, plan, err := h.render(a, s, nil, func(m *nstancev1.MachineAssignment, _ render.Host) ([]string, error) {
		p, err := h.opts.Policy()
		if err != nil {
			h.opts.Log.Warn("keys of SSH users are left out: the policy cannot be read", "machine", h.opts.Name(s), "error", err)
			return nil, nil
		}
		return h.users(p, m), nil
	})
	return plan, err
}

func (h *Host) render(
	a assignment.Assignment, s journal.Slot, c *nstancev1.MachineCredential, judge func(*nstancev1.MachineAssignment, render.Host) ([]string, error),
) (*nstancev1.MachineAssignment, render.Plan, error) {
	m, about, err := h.about(a, s)
	if err != nil {
		return nil, render.Plan{}, err
	}
	if about.SSHUsers, err = judge(m, about); err != nil {
		return nil, render.Plan{}, err
	}
	p, err := render.Render(m, about, c)
	if err != nil {
		return nil, render.Plan{}, fmt.Errorf("assignment of epoch %d: %w", a.Epoch, err)
	}
	return m, p, nil
}

// about is what an assignment says, and what is known of the host for it.
func (h *Host) about(a assignment.Assignment, s journal.Slot) (*nstancev1.MachineAssignment, render.Host, error) {
	m, err := a.Message()
	if err != nil {
		return nil, render.Host{}, err
	}
	about, err := facts.Read(m.GetTemplate(), h.opts.Facts)
	if err != nil {
		return nil, render.Host{}, err
	}
	about.Machine, about.StateDir = h.opts.Name(s), h.opts.Dir
	return m, about, nil
}

// allowed asks the host's policy before anything is done for an assignment.
func (h *Host) allowed(a assignment.Assignment, s journal.Slot) error {
	m, about, err := h.about(a, s)
	if err != nil {
		return err
	}
	_, err = h.judge(m, about)
	return err
}

// mayReset asks the host's policy whether somebody else than its administrator may have everything
// removed.
func (h *Host) mayReset(a assignment.Assignment) error {
	m, err := a.Message()
	if err != nil {
		return err
	}
	p, err := h.opts.Policy()
	if err != nil {
		return err
	}
	var errs []error
	for _, refusal := range p.Judge(m, policy.Host{}) {
		errs = append(errs, refusal)
	}
	return errors.Join(errs...)
}

// judge asks the host's policy. Users are those whose keys are set.
func (h *Host) judge(m *nstancev1.MachineAssignment, about render.Host) (users []string, err error) {
	p, err := h.opts.Policy()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, refusal := range h.refusals(p, m, about) {
		if refusal.Blocks {
			errs = append(errs, refusal)
		}
	}
	return h.users(p, m), errors.Join(errs...)
}

// users are those of an assignment whose keys a policy lets be set.
func (h *Host) users(p policy.Policy, m *nstancev1.MachineAssignment) []string {
	return slices.DeleteFunc(facts.Users(m.GetTemplate(), h.opts.Facts), func(user string) bool { return !slices.Contains(p.SSH.Users, user) })
}

// refusals are what a policy does not allow of an assignment.
func (h *Host) refusals(p policy.Policy, m *nstancev1.MachineAssignment, about render.Host) []policy.Refusal {
	return p.Judge(m, policy.Host{Paths: about.Paths, Users: facts.Users(m.GetTemplate(), h.opts.Facts), Verifies: true})
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
