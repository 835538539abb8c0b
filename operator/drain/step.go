package drain

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// LooksAtPods reports whether a step looks at what is on the Node. The first one only
// cordons it, and is not to wait for a list of Pods.
func LooksAtPods(s State, o Observation) bool {
	return o.DrainedByClusterAPI || s.Phase != None && !ofAnother(s, o)
}

// ofAnother reports whether a state is that of the drain of another instance, or of another
// Node of the same name, or of a drain that was over before there was a Node.
func ofAnother(s State, o Observation) bool {
	if s.Phase == infrav1.DrainDone && s.Instance == "" && o.Node != nil && !o.DrainedByClusterAPI {
		return true
	}
	return s.Instance != "" && s.Instance != o.Request.Instance || s.Node != "" && o.Node != nil && s.Node != o.Node.UID
}

// Step decides what comes next.
func Step(s State, o Observation, now time.Time) Decision {
	d := &step{Decision: Decision{State: s.clone()}, o: o, now: now}
	if ofAnother(s, o) {
		d.State = State{}.clone()
	}
	d.recordResults()
	d.count()
	switch {
	case o.InstanceState == InstanceDeleted:
		d.Over, d.Why = true, "the machine is gone"
	case o.InstanceState == InstanceDeleting:
		d.Why = "the machine is being deleted"
	case o.InstanceState == InstanceRetained:
		d.cancel()
	case o.NodeUnknown:
		d.wait("whether there is a node is not known")
	case d.State.Phase == infrav1.DrainDone:
		d.done()
	case o.Node == nil && o.Doubt != "":
		d.doubt()
	case o.Node == nil:
		d.noNode()
	case o.DrainedByClusterAPI:
		d.watch()
	default:
		d.drain()
	}
	if d.impossible != "" { // what a phase has done is repeated without harm, and nothing is left out
		why := "internal error in the drain (" + d.impossible + "); restarting it, nothing is lost"
		return Decision{
			State: State{}.clone(), RequeueAfter: quick, Counts: d.Counts, Why: why,
			Actions: []Action{PublishEvent{Reason: "DrainRestarted", Warning: true, Message: why}},
		}
	}
	return d.Decision
}

// count classifies the Pods.
func (d *step) count() {
	if d.o.Node == nil {
		return
	}
	around := classifier{daemonSets: d.o.DaemonSets, self: d.o.Self, unreachable: unreachable(d.o.Node), now: d.now}
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
	d.Over, d.Why = true, "the instance is no longer condemned"
	switch {
	case OfOperation(d.State.Instruction):
		d.Why = "the operation that it was drained for has ended"
	case OfRollout(d.State.Instruction):
		d.Why = "the rollout leaves the machine as it is"
	case d.State.Instruction != "":
		d.Why = "the shard has taken its instruction back"
	}
	if d.o.Node != nil && (d.State.Phase != None || d.o.Node.Annotations[infrav1.AnnotationDrainInstance] != "") {
		d.do(ClearState{}, PublishEvent{Reason: "DrainCancelled", Message: d.Why})
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
		d.Why, d.RequeueAfter = "its node is looked for", quick
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

// watch is for a Node that Cluster API drains: only that it is empty is of interest.
func (d *step) watch() {
	if d.Counts.Left > 0 {
		d.wait(fmt.Sprintf("%d pods are left for Cluster API to drain", d.Counts.Left))
		return
	}
	d.acknowledge("Cluster API has drained it")
}

// recordResults puts the answers of the last step into the state.
func (d *step) recordResults() {
	for _, r := range d.o.Results {
		a := d.State.Tried[r.Pod]
		if r.Outcome == Impossible && a.Outcome != Impossible {
			d.do(PublishEvent{Reason: "PodCannotBeEvicted", Warning: true, Message: r.Message})
		}
		a.Outcome, a.Message = r.Outcome, r.Message
		switch r.Outcome {
		case Blocked:
			a.Next = d.now.Add(max(retryBudget, r.RetryAfter))
		case Impossible:
			a.Next = d.now.Add(retryImpossible)
		case Conflict:
			a.Next = d.now
		default:
			a.Next = d.now.Add(retryBudget)
		}
		if r.Outcome != Leaves { // a deletion did not arrive
			a.Killed, a.Ends = time.Time{}, time.Time{}
		}
		d.State.Tried[r.Pod] = a
	}
}
