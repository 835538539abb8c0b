package fleet

import "time"

// Aging says at which age instances make room for younger ones. Zero: never. An
// age counts from the instance's creation, so it outlives every change of leader.
type Aging struct {
	Eligible time.Duration // managed: when the group is settled, one at a time
	Forced   time.Duration // managed: whatever else goes on; above Eligible
	OnDemand time.Duration // on demand: it goes, and nobody takes its place
}

// forcedShare is the part of a group that may be replaced for its age at once: one
// in this many, and at least one.
const forcedShare = 4

// reached reports whether in is as old as age, if that is set; else the group is
// planned again when it will be.
func (p *planner) reached(in *Instance, age time.Duration) bool {
	if age <= 0 {
		return false
	}
	at := in.Created.Add(age)
	if p.now.Before(at) {
		p.wakeAt(at)
		return false
	}
	return true
}

// expire carries out the successions of instances that are too old to wait for a
// good moment, a few at a time.
func (p *planner) expire() {
	if p.v.Group.Deleted {
		return
	}
	limit, underWay := max(1, p.v.Group.Desired()/forcedShare), p.expiring()
	for _, in := range p.all {
		due := p.due[in.ID]
		if due.reason != ReasonForcedExpiry || p.condemned[in.ID] {
			continue
		}
		switch step, why := p.next(in, due, "replace"); {
		case step == stepCondemn:
			p.condemn(in, due.reason, why)
		case step == stepWait: // a note says for what
		case underWay >= limit:
			p.note(in.ID, "replace", BlockerBound, "as many of the group as allowed are being replaced for their age", time.Time{})
		default:
			underWay++
			p.act(Create{Group: p.v.Group.ID, Replaces: in.ID, Why: why})
		}
	}
}

// expiring is how many instances are being replaced because they are too old.
func (p *planner) expiring() int {
	n := 0
	for _, in := range p.all {
		switch {
		case in.State.Leaving() && in.Removal.Reason == ReasonForcedExpiry && in.Power != Gone:
			n++
		case in.doubtful() && in.Condemning == ReasonForcedExpiry:
			n++ // perhaps
		case p.due[in.ID].reason == ReasonForcedExpiry && len(p.heirsOf(in)) > 0:
			n++
		}
	}
	return n
}

// expireOnDemand condemns on-demand instances that are too old, whatever becomes
// of their group.
func (p *planner) expireOnDemand() {
	for _, in := range p.all {
		if in.OnDemand && in.State.Live() && !p.condemned[in.ID] && p.reached(in, p.v.Aging.OnDemand) {
			p.condemn(in, ReasonExpired, "on demand, and as old as it may become")
		}
	}
}
