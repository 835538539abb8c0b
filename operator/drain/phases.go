package drain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// drain is for a Node that is ours to drain.
func (d *step) drain() {
	s := &d.State
	s.Node = d.o.Node.UID
	if s.Phase == None {
		d.cordon()
		return
	}
	s.Cordoned = s.Cordoned || !d.o.Node.Spec.Unschedulable
	if !d.o.Node.Spec.Unschedulable || d.o.Node.Annotations[infrav1.AnnotationDrainInstance] != s.Instance {
		d.do(WriteState{}) // the state did not arrive on the Node, or somebody removed it
		d.RequeueAfter, d.Why = quick, "to be cordoned"
		return
	}
	before := *s
	d.followRequest()
	switch {
	case d.Counts.Left == 0:
		d.detach()
	case d.past(s.Deadline):
		d.wait(fmt.Sprintf("%d pods are left, and there is no more time", d.Counts.Left))
		d.Over = d.past(s.Deadline.Add(ackLimit))
	case d.forced():
		d.force()
	default:
		d.to(infrav1.DrainEvicting)
		d.evict()
	}
	changed := s.Phase != before.Phase || s.Reason != before.Reason || !s.Deadline.Equal(before.Deadline) ||
		s.Instruction != before.Instruction || s.Force != before.Force
	if changed && s.Phase != infrav1.DrainDone { // that writes its own
		d.Actions = slices.Insert(d.Actions, 0, Action(WriteState{}))
	}
}

// cordon begins. Pods are only looked at in the next step: none come from then on.
func (d *step) cordon() {
	tried := d.State.Tried
	d.State = Begin(d.o.Node, d.o.Request, d.now)
	d.State.Tried = tried
	d.do(WriteState{}, PublishEvent{Reason: "DrainStarted", Message: d.State.Started()})
	d.RequeueAfter, d.Why = Immediately, "cordoned"
}

// followRequest takes over what is requested now: the newest deadline counts, of a machine that
// the provider takes away the earliest.
func (d *step) followRequest() {
	s, r := &d.State, d.o.Request
	s.Instruction, s.Force = r.Instruction, r.Force
	same := r.Deadline.Truncate(time.Second).Equal(s.Deadline.Truncate(time.Second)) // as a Node says it
	spot := s.Reason == ReasonSpot || r.Reason == ReasonSpot
	later := !s.Deadline.IsZero() && r.Deadline.After(s.Deadline)
	if r.Deadline.IsZero() || same || spot && later {
		return
	}
	s.Reason, s.Deadline = r.Reason, r.Deadline
}

// forced reports whether Pods are to be deleted directly.
func (d *step) forced() bool {
	s := d.State
	return s.Force != Never && !s.Deadline.IsZero() && d.past(ForcePoint(s.StartedAt, s.Deadline))
}

// evict asks those Pods to leave whose turn it is: Kubernetes' own critical ones when all
// others are gone.
func (d *step) evict() {
	ordinary := slices.ContainsFunc(d.pods.left(), func(p *corev1.Pod) bool { return !critical(p) })
	for _, p := range d.pods.evict {
		a, again := d.State.Tried[p.UID]
		if ordinary && critical(p) || again && d.now.Before(a.Next) {
			continue
		}
		d.warn(p)
		d.State.Tried[p.UID] = Attempt{At: d.now, Next: d.now.Add(retryBudget), Outcome: a.Outcome, Message: a.Message}
		d.do(Evict{p.Namespace, p.Name, p.UID, grace(p, d.State.Deadline, unreachable(d.o.Node), d.now)})
	}
	d.wait(d.waiting())
}

// warn tells once of a Pod that nobody makes again, before the first attempt to move it.
func (d *step) warn(p *corev1.Pod) {
	if _, again := d.State.Tried[p.UID]; !again && !managed(p) && p.DeletionTimestamp == nil {
		d.do(PublishEvent{Reason: "PodWillBeLost", Warning: true, Message: name(p) + " has no controller that would recreate it"})
	}
}

// waiting says what a drain waits for.
func (d *step) waiting() string {
	why := fmt.Sprintf("%d pods are left", d.Counts.Left)
	for _, p := range d.pods.evict {
		switch a := d.State.Tried[p.UID]; a.Outcome {
		case Blocked, Terminating, Impossible, Failed:
			return fmt.Sprintf("%s; %s %s: %s", why, name(p), a.Outcome, a.Message)
		}
	}
	return why
}

// force deletes what is left, again and again until the API server has said yes. When even
// that moves nothing, nothing more can be done.
func (d *step) force() {
	if d.State.Phase != infrav1.DrainForcing {
		d.to(infrav1.DrainForcing)
		d.do(PublishEvent{Reason: "DrainForced", Warning: true, Message: d.blockingPods()})
	}
	stuck := true
	for _, p := range d.pods.left() {
		a := d.State.Tried[p.UID]
		if !a.Killed.IsZero() && a.Outcome == Leaves {
			stuck = stuck && d.past(a.Ends.Add(stuckAfter))
			continue
		}
		stuck = false
		if d.endsInTime(p) {
			continue
		}
		d.warn(p)
		seconds := grace(p, d.State.Deadline, unreachable(d.o.Node), d.now)
		a.At, a.Killed, a.Ends = d.now, d.now, d.now.Add(time.Duration(seconds)*time.Second)
		a.Outcome = "" // until its answer is there
		d.State.Tried[p.UID] = a
		d.do(DeletePod{p.Namespace, p.Name, p.UID, seconds})
	}
	if stuck {
		d.acknowledge("not even a deletion moves the pods that are left: " + d.blockingPods())
		return
	}
	d.wait(fmt.Sprintf("%d pods were deleted and have not ended", d.Counts.Left))
}

// endsInTime reports whether a Pod that was told to end has time for it that ends early
// enough, or has not been over for long.
func (d *step) endsInTime(p *corev1.Pod) bool {
	if p.DeletionTimestamp == nil {
		return false
	}
	end := p.DeletionTimestamp.Time
	return !end.After(d.State.Deadline.Add(-5*time.Second)) && !d.past(end.Add(stuckAfter))
}

// blockingPods names up to ten Pods that are left, and what kept each.
func (d *step) blockingPods() string {
	var names []string
	for i, p := range d.pods.left() {
		if i == 10 {
			names = append(names, fmt.Sprintf("and %d more", d.Counts.Left-i))
			break
		}
		text := name(p)
		if says := d.State.Tried[p.UID].Message; says != "" {
			text += " (" + says + ")"
		}
		names = append(names, text)
	}
	return strings.Join(names, ", ")
}

// detach waits for volumes, and then is done.
func (d *step) detach() {
	d.to(infrav1.DrainDetaching)
	until := d.State.Since.Add(volumeWait)
	if s := d.State; !s.Deadline.IsZero() && s.Deadline.Add(-5*time.Second).Before(until) {
		until = s.Deadline.Add(-5 * time.Second)
	}
	if d.o.Attachments > 0 && d.now.Before(until) {
		d.wait(fmt.Sprintf("%d volumes are still attached", d.o.Attachments))
		return
	}
	d.acknowledge("drained")
}
