package prebuild

import (
	"fmt"
	"time"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/transition"
)

// View is all that a decision follows from.
type View struct {
	Journal    journal.Journal
	Assignment *assignment.Assignment // the last accepted one; nil if none ever was
	// Secrets: the pull secrets that are needed have come with what is to be prepared, or none is.
	Secrets bool
	Now     time.Time
}

// Kind is what a step does.
type Kind string

// Kinds of steps.
const (
	Wait  Kind = "wait"
	Fetch Kind = "fetch" // the image and the artifacts, into the cache
	Build Kind = "build" // the idle slot, in place of what it holds
)

// Step is one thing to do, and why.
type Step struct {
	Kind   Kind
	Slot   journal.Slot // that is built; None for Fetch and Wait
	Reason string
	// Limit is how long the step may take.
	Limit time.Duration
}

// Next returns the one thing to do now. Equal views give equal steps.
func Next(v View) Step {
	p := v.Journal.Prebuild
	wait := func(reason string) Step { return Step{Kind: Wait, Reason: reason} }
	switch {
	case p == nil:
		return wait("nothing is to be prepared")
	case p.Stage.Over():
		return wait("what was to be prepared is " + string(p.Stage))
	}
	if why := busy(v); why != "" {
		return wait(why)
	}
	limit := p.Assignment.Timeouts.WithDefaults().Prepare
	switch {
	case v.Now.Before(p.RetryAt):
		return wait(fmt.Sprintf("%s failed %d times: %s", p.Stage, p.Attempts, p.LastError))
	case !v.Secrets:
		return wait("the pull secrets of its image have not come")
	case p.Stage == journal.PrebuildBuild:
		return Step{Kind: Build, Slot: p.Slot, Reason: fmt.Sprintf("%s is prepared: it is fetched, and %s is idle", p.Assignment.Configuration, p.Slot.Machine()), Limit: limit}
	}
	return Step{Kind: Fetch, Reason: fmt.Sprintf("%s is prepared", p.Assignment.Configuration), Limit: limit}
}

// busy says why nothing is prepared now; empty: it may be.
func busy(v View) string {
	j, a := v.Journal, v.Assignment
	switch {
	case a != nil && a.Epoch > j.Epoch:
		return fmt.Sprintf("epoch %d is about to be built", a.Epoch)
	case j.Transition != nil:
		return fmt.Sprintf("epoch %d is in stage %s", j.Transition.Epoch, j.Transition.Stage)
	case j.Active == journal.None:
		return "the host has no machine that would go on meanwhile"
	}
	return ""
}

// Accept returns the journal once something is to be prepared, and whether it has changed. What is known
// is not begun a second time. An error says why it is ignored.
func Accept(j journal.Journal, scope journal.Scope, a assignment.Assignment, now time.Time) (next journal.Journal, changed bool, err error) {
	if a.Mode != assignment.Prebuild {
		return j, false, fmt.Errorf("a prebuild is ignored: its mode is %s", a.Mode)
	}
	hash := a.Configuration.Hash
	if known := j.Prebuild; known.Hash() == hash && known.Scope == scope && known.Assignment.MachineUID == a.MachineUID {
		return j, false, nil
	}
	if runs, is := j.Contents[j.Active]; is && runs.Configuration.Hash == hash {
		return j, false, fmt.Errorf("a prebuild of %s is ignored: it runs", a.Configuration)
	}
	next = j.Clone()
	next.Prebuild = &journal.Prebuild{Scope: scope, Stage: journal.PrebuildFetch, Since: now, Assignment: a}
	idle := j.Active.Other()
	if holds, is := j.Contents[idle]; scope == journal.WholeSlot && j.Active != journal.None && is && holds.Configuration.Hash == hash && !holds.Broken {
		next.Prebuild.Stage, next.Prebuild.Slot = journal.PrebuildDone, idle // as of a version that it has run before
	}
	return next, true, nil
}

// Withdraw returns the journal once nothing is to be prepared any more, and whether it has changed. What is
// prepared already stays.
func Withdraw(j journal.Journal) (journal.Journal, bool) {
	if j.Prebuild == nil || j.Prebuild.Stage.Over() {
		return j, false
	}
	next := j.Clone()
	next.Prebuild = nil
	return next, true
}

// Result is what became of a step.
type Result struct {
	Err    error
	Jitter float64 // from -1 to 1
	Now    time.Time
}

// After returns what the journal is once a step was carried out. It is to be durable before the next one is
// decided.
func After(j journal.Journal, step Step, r Result) journal.Journal {
	j = j.Clone()
	p := j.Prebuild
	if r.Err != nil {
		p.Attempts++
		p.LastError, p.RetryAt = journal.Cut(r.Err.Error()), r.Now.Add(transition.Backoff(p.Attempts, r.Jitter))
		if p.Attempts >= transition.MaxAttempts {
			p.Stage, p.Slot, p.Since, p.RetryAt = journal.PrebuildFailed, journal.None, r.Now, time.Time{}
		}
		return j
	}
	p.Since, p.RetryAt, p.LastError = r.Now, time.Time{}, ""
	switch {
	case step.Kind == Build:
		if j.Contents == nil {
			j.Contents = map[journal.Slot]journal.Content{}
		}
		j.Contents[step.Slot] = journal.Content{Configuration: p.Assignment.Configuration}
		p.Stage = journal.PrebuildDone
	case p.Scope == journal.WholeSlot:
		p.Stage, p.Slot = journal.PrebuildBuild, j.Active.Other()
		delete(j.Contents, p.Slot) // from now on it is removed
		if j.Previous == p.Slot {
			j.Previous = journal.None
		}
	default:
		p.Stage = journal.PrebuildDone
	}
	return j
}
