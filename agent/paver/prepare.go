package paver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/host"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/operation"
	"nstance.dev/agent/paver/prebuild"
	"nstance.dev/agent/paver/transition"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Preparer prepares machines while another one runs, beside what a [Host] does. It has one user at a time.
type Preparer interface {
	Prepare(ctx context.Context, p host.Preparation) error
}

// preparing is what is prepared in the background. The loop alone writes the journal of it.
type preparing struct {
	// asked is what came last and the journal does not have yet; nil: it has.
	asked *asked
	// secrets are the pull secrets that came with what the journal has; they are in memory alone.
	secrets map[string][]byte
	running *preparation // nil: nothing is being done
}

// asked is something that is to be prepared, or, with no scope, no more.
type asked struct {
	scope      journal.Scope
	assignment assignment.Assignment
	secrets    map[string][]byte
}

// preparation is a step that is carried out beside the loop.
type preparation struct {
	step   prebuild.Step
	hash   string
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended, with err
	err    error
}

// background is the part of a [Paver] that prepares machines.
type background struct{ *Paver }

var scopes = map[nstancev1.MachinePrebuildScope]journal.Scope{
	nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_UNSPECIFIED: "",
	nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_IMAGES:      journal.Images,
	nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_SLOT:        journal.WholeSlot,
}

// takePrebuild takes in what is to be prepared; the last one counts.
func (p background) takePrebuild(m *nstancev1.MachinePrebuild) error {
	scope, known := scopes[m.GetScope()]
	switch {
	case p.opts.Preparer == nil:
		return errors.New("a prebuild is ignored: this process carries none out")
	case !known:
		return fmt.Errorf("a prebuild is ignored: its scope %d is unknown", m.GetScope())
	}
	order := &asked{scope: scope}
	if scope != "" {
		a, err := assignment.From(m.GetAssignment())
		if err != nil {
			return err
		}
		order.assignment, order.secrets = a, maps.Clone(m.GetPullSecrets())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.preparing.asked = order
	return nil
}

// prepare goes on with what is prepared in the background.
func (p background) prepare(ctx context.Context) {
	if p.opts.Preparer == nil {
		return
	}
	p.gather(ctx)
	p.accept(ctx)
	p.mu.Lock()
	v := prebuild.View{Journal: p.state, Assignment: p.inbox.assignment, Secrets: p.hasSecrets(), Now: p.opts.Now()}
	running := p.preparing.running != nil
	p.mu.Unlock()
	step := prebuild.Next(v)
	if running || step.Kind == prebuild.Wait {
		return
	}
	p.opts.Log.InfoContext(ctx, "preparing", "step", step.Kind, "slot", step.Slot, "version", v.Journal.Prebuild.Assignment.Configuration.String(), "reason", step.Reason)
	limited, cancel := context.WithTimeout(ctx, step.Limit)
	b := &preparation{step: step, hash: v.Journal.Prebuild.Hash(), cancel: cancel, done: make(chan struct{})}
	p.mu.Lock()
	p.preparing.running = b
	work := host.Preparation{Assignment: v.Journal.Prebuild.Assignment, Slot: step.Slot, PullSecrets: p.preparing.secrets}
	p.mu.Unlock()
	go func() {
		// The thread has the lowest priority from here on, and ends with the goroutine.
		runtime.LockOSThread()
		err := p.opts.Preparer.Prepare(limited, work)
		if errors.Is(limited.Err(), context.DeadlineExceeded) && err != nil {
			err = fmt.Errorf("%s is not done in %v: %w", step.Kind, step.Limit, err)
		}
		b.err = err
		close(b.done)
		poke(p.wake)
	}()
}

// hasSecrets reports whether the pull secret of the image that is prepared is here, or none is needed. The
// caller has the lock.
func (p background) hasSecrets() bool {
	if p.state.Prebuild == nil {
		return true
	}
	m, err := p.state.Prebuild.Assignment.Message()
	if err != nil {
		return true // it fails of that
	}
	name := m.GetTemplate().GetImage().GetOci().GetPullSecret()
	return name == "" || p.preparing.secrets[name] != nil
}

// gather writes down what became of the step that was carried out in the background, if it has ended.
func (p background) gather(ctx context.Context) {
	p.mu.Lock()
	b, j := p.preparing.running, p.state
	p.mu.Unlock()
	if b == nil {
		return
	}
	select {
	case <-b.done:
	default:
		return
	}
	b.cancel()
	current := j.Prebuild.Hash() == b.hash && !j.Prebuild.Stage.Over()
	if current && ctx.Err() == nil {
		log := p.opts.Log.With("step", b.step.Kind, "slot", b.step.Slot, "version", j.Prebuild.Assignment.Configuration.String())
		next := prebuild.After(j, b.step, prebuild.Result{Err: b.err, Jitter: p.opts.Jitter(), Now: p.opts.Now()})
		if !p.note(ctx, next) {
			return // it is written down later
		}
		if b.err != nil {
			log.WarnContext(ctx, "preparing failed", "attempts", next.Prebuild.Attempts, "given_up", next.Prebuild.Stage.Over(), "error", b.err)
		} else {
			log.InfoContext(ctx, "prepared", "stage", next.Prebuild.Stage)
		}
	}
	p.mu.Lock()
	p.preparing.running = nil
	p.mu.Unlock()
}

// accept writes down what is to be prepared.
func (p background) accept(ctx context.Context) {
	p.mu.Lock()
	order, j := p.preparing.asked, p.state
	p.mu.Unlock()
	if order == nil {
		return
	}
	var next journal.Journal
	var changed bool
	var err error
	if order.scope == "" {
		next, changed = prebuild.Withdraw(j)
	} else {
		next, changed, err = prebuild.Accept(j, order.scope, order.assignment, p.opts.Now())
	}
	if changed {
		p.halt(ctx, "something else is to be prepared, or nothing")
		if !p.note(ctx, next) {
			return // it is tried again
		}
	}
	switch {
	case err != nil:
		p.opts.Log.InfoContext(ctx, "prebuild ignored", "reason", err)
	case changed:
		p.opts.Log.InfoContext(ctx, "prebuild accepted", "scope", order.scope, "version", order.assignment.Configuration.String())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.preparing.secrets = order.secrets
	}
	if p.preparing.asked == order {
		p.preparing.asked = nil
	}
}

// note makes a journal durable in which the prebuild alone has changed. It reports whether it is.
func (p background) note(ctx context.Context, next journal.Journal) bool {
	if err := p.journal.Save(next); err != nil {
		p.opts.Log.ErrorContext(ctx, "journal not written", "error", err)
		p.problem("JournalNotWritten", err.Error())
		return false
	}
	p.solved("JournalNotWritten")
	p.setState(next)
	return true
}

// halt ends the step that is carried out in the background, and returns once it has. What it has fetched
// stays; it is begun again from the journal.
func (p background) halt(ctx context.Context, reason string) {
	p.mu.Lock()
	b := p.preparing.running
	p.mu.Unlock()
	if b == nil {
		return
	}
	b.cancel()
	<-b.done
	p.opts.Log.InfoContext(ctx, "preparing interrupted", "step", b.step.Kind, "reason", reason)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.preparing.running = nil
}

// makesWay reports whether a step of the loop takes that nothing is prepared beside it. To keep the machine
// running that is there does not.
func makesWay(kind transition.Kind) bool {
	switch kind {
	case transition.Wait, transition.AskForSecret, transition.StartActive, transition.KillSlot, transition.LookAgain:
		return false
	}
	return true
}

// makesWayFor reports the same of a step of an operation.
func makesWayFor(kind operation.Kind) bool {
	return kind == operation.Reset || kind == operation.RestartHost || kind == operation.PowerOff
}
