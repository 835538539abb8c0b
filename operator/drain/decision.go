package drain

import (
	"fmt"
	"time"
)

// Times of a drain.
const (
	// Immediately is the RequeueAfter of a step that is to be followed by another without a pause.
	Immediately = time.Millisecond
	// lookFor is how long the Node of a young instance is looked for; young is an
	// instance for that long.
	lookFor, young = 10 * time.Second, 10 * time.Minute
	// volumeWait is how long volumes get to be detached.
	volumeWait = 60 * time.Second
	// stuckAfter is how long after the end of its grace a deleted Pod counts as stuck.
	stuckAfter = 10 * time.Second
	// ackLimit is how long after the deadline the server is still told.
	ackLimit = 60 * time.Second
	// slow and quick are the paces of steps; quick with quickFor or less left.
	slow, quick, quickFor = 2 * time.Second, time.Second, 60 * time.Second
	// retryBudget and retryImpossible are when a Pod is tried again after an eviction that failed.
	retryBudget, retryImpossible = 2 * time.Second, 30 * time.Second
)

// Counts says how far the Pods of a Node are.
type Counts struct {
	Total, Evicted, Blocked, Left int
}

// Decision is the answer of Step.
type Decision struct {
	State   State
	Actions []Action
	// RequeueAfter is when to step again at the latest; zero: when something changes.
	RequeueAfter time.Duration
	// Over: nothing is left to do for this instance.
	Over   bool
	Counts Counts
	// Why says what is waited for, to users.
	Why string
}

// step is a Decision in the making.
type step struct {
	Decision
	o    Observation
	pods sorted
	now  time.Time
	// impossible names a transition that was requested and does not exist; empty: none.
	impossible string
}

// to moves the drain to a phase.
func (d *step) to(p Phase) {
	if from := d.State.Phase; !d.State.to(p, d.now) {
		d.impossible = fmt.Sprintf("no transition from phase %q to %q", from, p)
	}
}

func (d *step) do(actions ...Action) { d.Actions = append(d.Actions, actions...) }

// wait ends the step until the usual time has passed.
func (d *step) wait(why string) {
	d.Why, d.RequeueAfter = why, slow
	for _, deadline := range []time.Time{d.o.Request.Deadline, d.State.Deadline} { // of a spot machine they may differ
		if !deadline.IsZero() && deadline.Sub(d.now) <= quickFor {
			d.RequeueAfter = quick
		}
	}
}

// undecided reports whether the Node that was drained may not be the instance's, and the
// instance still has time.
func (d *step) undecided() bool { return d.o.Doubt != "" && !d.past(d.o.Request.Deadline) }

// past reports whether a time is there and over.
func (d *step) past(t time.Time) bool { return !t.IsZero() && !d.now.Before(t) }
