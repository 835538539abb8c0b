package drain

import (
	"fmt"
	"time"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// acknowledge ends the drain once the server has confirmed it. A Node that may not be the
// instance's is not acknowledged yet.
func (d *step) acknowledge(why string) {
	d.Why = why
	if d.undecided() || d.acknowledged(why) {
		d.finish(why)
	}
}

// acknowledged reports whether the server has confirmed that the Node is drained. Until then it
// sends the acknowledgement, with back-off. Where no server waits for one, it is true at once.
func (d *step) acknowledged(why string) bool {
	s := &d.State
	d.Why = why
	pausing := s.AckedAt.Add(pause(s.Acks)).Sub(d.now)
	switch {
	case !d.o.Request.Acknowledge, s.Acked:
		return true
	case s.Acks > 0 && d.o.Acknowledged:
		s.Acked = true
		return true
	case !d.o.Request.Deadline.IsZero() && d.past(d.o.Request.Deadline.Add(ackLimit)):
		d.Over = true
	case s.Acks > 0 && pausing > 0:
		d.RequeueAfter = pausing
	default:
		s.Acks++
		s.AckedAt = d.now
		d.RequeueAfter = pause(s.Acks)
		d.do(Acknowledge{Instance: d.o.Request.Instance, Forced: d.wasForced(), Evicted: d.Counts.Evicted, Left: d.Counts.Left})
	}
	return false
}

// pause is how long an answer is waited for after so many attempts.
func pause(attempts int) time.Duration {
	return min(time.Second<<max(0, min(attempts-1, 8)), 10*time.Second)
}

// finish ends the drain. The own Pod, if it was on the Node, goes now.
func (d *step) finish(why string) {
	s := &d.State
	ours := s.Phase != None && d.o.Node != nil
	d.to(infrav1.DrainDone)
	if ours {
		d.do(WriteState{}, PublishEvent{
			Reason: "Drained", Warning: d.Counts.Left > 0,
			Message: fmt.Sprintf("%s after %v: %d pods left the node, %d stayed", why, d.now.Sub(s.StartedAt).Round(time.Second), d.Counts.Evicted, d.Counts.Left),
		})
	}
	if d.undecided() {
		d.wait("drained, and its node is uncertain: " + d.o.Doubt)
		return
	}
	d.evictSelf()
}

// done is for a drain that is over: it is acknowledged again if the server asks again.
func (d *step) done() {
	if d.o.Repeated {
		d.State.Acked, d.State.Acks = false, 0
	}
	if d.undecided() {
		d.wait("drained, and its node is uncertain: " + d.o.Doubt)
		return
	}
	if d.acknowledged("drained") {
		d.evictSelf()
	}
}

// evictSelf asks this program's own Pod to leave, if it is on the Node; the next leader
// finds a drain that is done. Without it nothing is left to do.
func (d *step) evictSelf() {
	p := d.pods.self
	if p == nil || p.DeletionTimestamp != nil {
		d.Over = true
		return
	}
	if a, again := d.State.Tried[p.UID]; again && d.now.Before(a.Next) {
		d.RequeueAfter = a.Next.Sub(d.now)
		return
	}
	d.State.Tried[p.UID] = Attempt{At: d.now, Next: d.now.Add(retryBudget)}
	d.do(Evict{p.Namespace, p.Name, p.UID, grace(p, d.State.Deadline, false, d.now)})
	d.RequeueAfter = retryBudget
}

// wasForced reports whether any Pod was deleted directly.
func (d *step) wasForced() bool {
	for _, a := range d.State.Tried {
		if !a.Killed.IsZero() {
			return true
		}
	}
	return false
}
