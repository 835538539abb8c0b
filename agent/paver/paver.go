// Package paver is the loop of nstance-paver: it looks at the journal, the last assignment and what
// runs, asks package transition for the one next step, has package host carry it out, writes the
// journal, and begins again.
//
// It remembers nothing that a restart would miss but the credential, which lies on a file system in
// memory, and the confirmation of a Node, which is sent again. Operations are carried out in the same
// loop, one at a time and between the steps of a change of machines; they have a record of their own,
// in package operation. Work comes in by [Paver.Take] from
// any goroutine; [Paver.Run] is one goroutine, and there is one Run on a host at a time.
package paver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"nstance.dev/agent/paver/host"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/operation"
	"nstance.dev/agent/paver/report"
	"nstance.dev/agent/paver/transition"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Host carries steps out and looks at what runs.
type Host interface {
	Observe(ctx context.Context, markers bool) (map[journal.Slot]host.Seen, error)
	Do(ctx context.Context, w host.Work) (transition.Result, error)
	DiskLow() bool
	// Surroundings are what a report says beside the machine: preflight, drift, the host. It may
	// take seconds.
	Surroundings(ctx context.Context, j journal.Journal) report.Surroundings
}

// Options are what a Paver works with. Host, Dir, RunDir and Log are required.
type Options struct {
	Host Host
	// Executor carries operations out; nil: none is taken.
	Executor Executor
	// Preparer prepares machines in the background; nil: none is.
	Preparer Preparer
	Dir      string // of the journal and the last assignment
	RunDir   string // of the credential: on a file system in memory
	Version  string
	Log      *slog.Logger
	Now      func() time.Time // time.Now
	Jitter   func() float64   // from -1 to 1; random
}

// How often the loop looks although nothing has happened.
const (
	busyInterval  = 2 * time.Second
	quietInterval = 10 * time.Second
	reportEvery   = 30 * time.Second
	failurePause  = 5 * time.Second
	observeLimit  = time.Minute // a systemd that does not answer is reported
)

// Paver is the loop. Make one with [New].
type Paver struct {
	opts    Options
	journal journal.File
	wake    chan struct{} // has room for one

	mu     sync.Mutex
	inbox  inbox
	orders orders
	// preparing is what is prepared in the background.
	preparing preparing
	state     journal.Journal // as it was last written
	step      transition.Step
	cancel    context.CancelCauseFunc  // of the step that is being carried out
	status    *nstancev1.MachineStatus // nil until the host was looked at
	changed   chan struct{}            // closed when status is replaced
	problems  map[string]string
	// progressed is when a report last said how far a step is.
	progressed time.Time
}

// New returns a Paver with what is stored of the last assignment. It changes nothing.
func New(opts Options) (*Paver, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Jitter == nil {
		opts.Jitter = func() float64 { return 2*rand.Float64() - 1 }
	}
	p := &Paver{
		opts: opts, journal: journal.File{Path: filepath.Join(opts.Dir, "journal.json")},
		wake: make(chan struct{}, 1), changed: make(chan struct{}), problems: map[string]string{},
	}
	var err error
	if p.inbox, err = openInbox(opts.Dir, opts.RunDir); err != nil {
		return p, err
	}
	p.orders.file = operation.File{Path: filepath.Join(opts.Dir, operationsFile)}
	if p.orders.book, p.orders.unreadable = p.orders.file.Load(); p.orders.unreadable != nil {
		p.problem("OperationsUnreadable", p.orders.unreadable.Error())
	}
	return p, nil
}

// Run carries out what is to be done until ctx ends. A journal that cannot be believed is reported
// and waited on: nothing is touched then.
func (p *Paver) Run(ctx context.Context) error {
	j, fresh, err := p.journal.Load()
	if errors.Is(err, journal.ErrCorrupt) {
		p.opts.Log.ErrorContext(ctx, "nothing is done: the journal cannot be believed", "error", err)
		p.problem("JournalCorrupt", err.Error())
		for ctx.Err() == nil {
			p.publish(ctx, transition.View{Journal: journal.Journal{V: journal.Version}, Now: p.opts.Now()}, nil)
			p.wait(ctx, reportEvery)
		}
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	p.opts.Log.InfoContext(ctx, "journal read", "fresh", fresh, "epoch", j.Epoch, "active", j.Active, "transition", j.Transition != nil)
	p.setState(j)
	defer background{p}.halt(ctx, "the process ends")
	var idle time.Time
	for ctx.Err() == nil {
		idle = p.pass(ctx, idle)
	}
	return ctx.Err()
}

// pass decides once and carries the step out. Idle is when a step may be tried again that the
// journal does not count.
func (p *Paver) pass(ctx context.Context, idle time.Time) time.Time {
	if err := p.takeLater(ctx); err != nil {
		p.opts.Log.ErrorContext(ctx, "assignment not written", "error", err)
		p.problem("AssignmentNotWritten", err.Error())
		p.wait(ctx, failurePause)
		return idle
	}
	p.solved("AssignmentNotWritten")
	background{p}.prepare(ctx)
	v, seen, err := p.view(ctx, idle)
	if err != nil {
		if ctx.Err() == nil {
			p.opts.Log.WarnContext(ctx, "the host cannot be looked at", "error", err, "retry_in", failurePause.String())
			p.problem("ObserveFailed", err.Error())
			p.wait(ctx, failurePause)
		}
		return idle
	}
	p.solved("ObserveFailed")
	step := transition.Next(v)
	waits := step.Kind == transition.Wait || step.Kind == transition.AskForSecret
	switch turn := p.operate(ctx, v, !waits); {
	case turn.did:
		v.Journal = p.Journal()
		p.publish(ctx, v, seen)
		return idle
	case turn.alone:
		p.publish(ctx, v, seen)
		p.wait(ctx, turn.until.Sub(v.Now))
		return idle
	case !turn.until.IsZero() && waits && (step.Until.IsZero() || turn.until.Before(step.Until)):
		step.Until = turn.until
	}
	p.announce(ctx, step)
	p.publish(ctx, v, seen)
	if waits {
		p.waitFor(ctx, v, step)
		return idle
	}
	return p.carryOut(ctx, v, step)
}

// carryOut does a step and writes down what the journal is then.
func (p *Paver) carryOut(ctx context.Context, v transition.View, step transition.Step) time.Time {
	switch {
	case step.Kind != transition.KillSlot:
		p.solved(splitSlots)
		p.solved("UnexpectedMachine")
	case strings.HasPrefix(step.Reason, splitSlots):
		p.problem(splitSlots, step.Reason)
	default:
		p.problem("UnexpectedMachine", step.Reason)
	}
	limited, stop, ok := p.begin(ctx, v, step)
	if !ok {
		return time.Time{} // an assignment has come since the host was looked at
	}
	if makesWay(step.Kind) {
		background{p}.halt(ctx, step.Reason)
	}
	w := host.Work{Step: step, Journal: v.Journal, Assignment: v.Assignment, Credential: p.credential(v)}
	result, err := p.opts.Host.Do(limited, w)
	superseded := errors.Is(context.Cause(limited), errSuperseded)
	if err != nil && errors.Is(limited.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%s is not done in %v: %w", step.Kind, step.Limit, err)
	}
	stop()
	if err != nil && (ctx.Err() != nil || superseded) {
		return time.Time{} // it is no failure, and will be begun again
	}
	now := p.opts.Now()
	if err != nil {
		p.opts.Log.WarnContext(ctx, "step failed", "step", step.Kind, "slot", step.Slot, "error", err)
		p.problem("StepFailed", fmt.Sprintf("%s: %v", step.Kind, err))
	} else {
		p.solved("StepFailed")
	}
	result.Err, result.Now, result.Jitter = err, now, p.opts.Jitter()
	next, changed := transition.After(v, step, result)
	if changed {
		if saveErr := p.save(step, next); saveErr != nil {
			p.opts.Log.ErrorContext(ctx, "journal not written", "error", saveErr)
			p.problem("JournalNotWritten", saveErr.Error())
			if known, counted := transition.Unwritten(v, step, result); counted {
				p.setState(known)
				return now.Add(failurePause)
			}
			p.wait(ctx, failurePause)
			return time.Time{} // what was done is done again
		}
		p.solved("JournalNotWritten")
	}
	if err != nil {
		return now.Add(failurePause)
	}
	return time.Time{}
}

// save writes the journal. After a reset there is none.
func (p *Paver) save(step transition.Step, next journal.Journal) error {
	if step.Kind == transition.ResetHost {
		if err := p.forget(); err != nil {
			return err
		}
		if err := p.journal.Remove(); err != nil {
			return err
		}
	} else if err := p.journal.Save(next); err != nil {
		return err
	}
	if step.Kind == transition.EnableSlot {
		p.joined()
	}
	p.setState(next)
	return nil
}

func (p *Paver) setState(j journal.Journal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = j
}

// splitSlots is what is wrong when both slots run.
const splitSlots = "SplitSlots"

// errSuperseded is why a step ends for which a newer assignment has come.
var errSuperseded = errors.New("a newer assignment has come")

// interruptible are the steps that a newer assignment may end: those that prepare, and those that
// clean up.
func interruptible(kind transition.Kind) bool {
	switch kind {
	case transition.FetchRoot, transition.BuildSlot, transition.RefreshSlot, transition.CheckGuards, transition.SweepSlots, transition.FreeSlot:
		return true
	}
	return false
}

// begin notes which step is being carried out, for as long as it may take. It is not ok if another
// assignment has come since the view of which the step follows: nothing could interrupt it then.
func (p *Paver) begin(ctx context.Context, v transition.View, step transition.Step) (limited context.Context, stop func(), ok bool) {
	limit := step.Limit
	if limit == 0 {
		limit = time.Minute
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inbox.assignment != v.Assignment {
		return ctx, nil, false
	}
	limited, cancelLimit := context.WithTimeout(ctx, limit)
	limited, cancel := context.WithCancelCause(limited)
	p.step, p.cancel = step, cancel
	return limited, func() {
		p.mu.Lock()
		p.cancel = nil
		p.mu.Unlock()
		cancel(nil)
		cancelLimit()
	}, true
}

// announce logs a step that is new, with its reason.
func (p *Paver) announce(ctx context.Context, step transition.Step) {
	p.mu.Lock()
	same := p.step.Kind == step.Kind && p.step.Slot == step.Slot && p.step.Reason == step.Reason
	p.step = step
	p.mu.Unlock()
	if !same || step.Kind != transition.Wait && step.Kind != transition.AskForSecret {
		p.opts.Log.InfoContext(ctx, "next step", "step", step.Kind, "slot", step.Slot, "reason", step.Reason)
	}
}

// waitFor waits until a step's moment, until something comes in, or for a look at what runs.
func (p *Paver) waitFor(ctx context.Context, v transition.View, step transition.Step) {
	d := step.Until.Sub(v.Now)
	if v.Journal.Transition != nil {
		d = min(d, busyInterval)
	}
	p.wait(ctx, min(d, quietInterval))
}

func (p *Paver) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(max(d, time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-p.wake:
	case <-timer.C:
	}
}

// view is all that the next decision follows from.
func (p *Paver) view(ctx context.Context, idle time.Time) (transition.View, map[journal.Slot]host.Seen, error) {
	p.mu.Lock()
	v := transition.View{Journal: p.state, Assignment: p.inbox.assignment, Confirmed: p.inbox.confirmed, Idle: idle}
	p.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, observeLimit)
	defer cancel()
	seen, err := p.opts.Host.Observe(limited, v.Assignment != nil && v.Assignment.Epoch > v.Journal.Epoch)
	if err != nil {
		return v, nil, err
	}
	v.Now = p.opts.Now()
	v.Slots = map[journal.Slot]transition.Observed{}
	for slot, s := range seen {
		v.Slots[slot] = s.Observed
	}
	if c := p.credential(v); c != nil {
		v.Credential, v.CredentialUntil = true, c.GetExpiresAt().AsTime()
	}
	v.DiskLow = transition.Spare(v.Journal) != journal.None && p.opts.Host.DiskLow()
	return v, seen, nil
}

// Known is the leader that the journal remembers of a slot.
func (p *Paver) Known(slot journal.Slot) journal.Leader {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Contents[slot].Leader
}

// Quiet reports whether nothing is to be done for the last assignment.
func (p *Paver) Quiet() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, a := p.state.Transition, p.inbox.last()
	return (t == nil || t.Marks.Held) && (a == nil || a.Epoch <= p.state.Epoch)
}

// Journal is as it was last written. It is not to be changed.
func (p *Paver) Journal() journal.Journal {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}
