package drain

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	api "nstance.dev/operator/api/infrastructure/v1beta1"
)

// Times of a drain.
const (
	// AtOnce is the Again of a step that is to be followed by another without a pause.
	AtOnce = time.Millisecond
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
	slow, quick, quickFor = 5 * time.Second, time.Second, 60 * time.Second
)

// LooksAtPods reports whether a step looks at what is on the Node. The first one only
// cordons it, and is not to wait for a list of Pods.
func LooksAtPods(s State, o Observation) bool {
	return o.CoreDrains || s.Phase != None && !ofAnother(s, o)
}

// ofAnother reports whether a state is that of the drain of another instance, or of another
// Node of the same name, or of a drain that was over before there was a Node.
func ofAnother(s State, o Observation) bool {
	if s.Phase == api.DrainDone && s.Instance == "" && o.Node != nil && !o.CoreDrains {
		return true
	}
	return s.Instance != "" && s.Instance != o.Request.Instance || s.Node != "" && o.Node != nil && s.Node != o.Node.UID
}

// step is a Decision in the making.
type step struct {
	Decision
	o    Observation
	pods sorted
	now  time.Time
	// lost says which transition was wanted that does not exist; empty: none.
	lost string
}

// to moves the drain to a phase.
func (d *step) to(p Phase) {
	if from := d.State.Phase; !d.State.to(p, d.now) {
		d.lost = fmt.Sprintf("no transition from phase %q to %q", from, p)
	}
}

// Step decides what comes next.
func Step(s State, o Observation, now time.Time) Decision {
	d := &step{Decision: Decision{State: s.clone()}, o: o, now: now}
	if ofAnother(s, o) {
		d.State = State{}.clone()
	}
	d.learn()
	d.count()
	switch {
	case o.Fate == Deleted:
		d.Over, d.Why = true, "the machine is gone"
	case o.Fate == Deleting:
		d.Why = "the machine is being deleted"
	case o.Fate == Spared:
		d.cancel()
	case o.NodeUnknown:
		d.wait("whether there is a node is not known")
	case d.State.Phase == api.DrainDone:
		d.done()
	case o.Node == nil && o.Doubt != "":
		d.doubt()
	case o.Node == nil:
		d.noNode()
	case o.CoreDrains:
		d.watch()
	default:
		d.drain()
	}
	if d.lost != "" { // what a phase has done is repeated without harm, and nothing is left out
		return Decision{
			State: State{}.clone(), Again: quick, Counts: d.Counts, Why: "begins anew: " + d.lost,
			Actions: []Action{Tell{Reason: "DrainRestarted", Warning: true, Message: d.lost}},
		}
	}
	return d.Decision
}

func (d *step) do(actions ...Action) { d.Actions = append(d.Actions, actions...) }

// wait ends the step until the usual time has passed.
func (d *step) wait(why string) {
	d.Why, d.Again = why, slow
	for _, deadline := range []time.Time{d.o.Request.Deadline, d.State.Deadline} { // of a spot machine they may differ
		if !deadline.IsZero() && deadline.Sub(d.now) <= quickFor {
			d.Again = quick
		}
	}
}

// count classifies the Pods.
func (d *step) count() {
	if d.o.Node == nil {
		return
	}
	around := surroundings{daemonSets: d.o.DaemonSets, self: d.o.Self, unreachable: unreachable(d.o.Node), now: d.now}
	d.pods = around.sort(d.o.Pods)
	there := map[types.UID]bool{}
	for _, p := range d.o.Pods {
		there[p.UID] = true
	}
	for uid := range d.State.Tried {
		if !there[uid] {
			d.Counts.Evicted++
		}
	}
	for _, p := range d.pods.left() {
		d.Counts.Left++
		if d.State.Tried[p.UID].Outcome == Blocked {
			d.Counts.Blocked++
		}
	}
	d.Counts.Total = d.Counts.Evicted + d.Counts.Left
}

// cancel undoes the drain of an instance that is to live.
func (d *step) cancel() {
	d.Over, d.Why = true, "the instance is not condemned any more"
	if d.o.Node != nil && (d.State.Phase != None || d.o.Node.Annotations[api.AnnotationDrainInstance] != "") {
		d.do(Unmark{}, Tell{Reason: "DrainCancelled", Message: d.Why})
	}
	d.State = State{}
}

// noNode is for an instance without a Node.
func (d *step) noNode() {
	age := d.now.Sub(d.o.RegisteredAt)
	switch {
	case d.State.Phase != None:
		d.acknowledge("its node is gone")
	case d.o.RegisteredAt.IsZero():
		d.acknowledge("it never registered, and has no node")
	case age < young && d.now.Sub(d.o.NoticedAt) < lookFor:
		d.Why, d.Again = "its node is looked for", quick
	default:
		d.acknowledge("it has no node")
	}
}

// doubt is for an instance whose Node may be there and cannot be told from others. Work may
// run on it, so nothing is acknowledged: the instance has the time until its deadline, in
// which somebody can mend the Nodes.
func (d *step) doubt() {
	deadline := d.o.Request.Deadline
	d.wait("its node is uncertain: " + d.o.Doubt)
	d.Over = d.past(deadline) && (!d.o.Request.Acknowledge || d.past(deadline.Add(ackLimit)))
}

// undecided reports whether the Node that was drained may not be the instance's, and the
// instance still has time.
func (d *step) undecided() bool { return d.o.Doubt != "" && !d.past(d.o.Request.Deadline) }

// watch is for a Node that Cluster API drains: only that it is empty is of interest.
func (d *step) watch() {
	if d.Counts.Left > 0 {
		d.wait(fmt.Sprintf("%d pods are left for Cluster API to drain", d.Counts.Left))
		return
	}
	d.acknowledge("Cluster API has drained it")
}

// past reports whether a time is there and over.
func (d *step) past(t time.Time) bool { return !t.IsZero() && !d.now.Before(t) }
