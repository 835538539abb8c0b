package fleet

import "time"

// forcedShare is the part of a group that may be replaced for its age at once: one
// in this many, and at least one.
const forcedShare = 4

// expire carries out the replacements of instances that are too old to wait for a
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
			p.note(in.ID, "replace", BlockerBound, "the limit of machines of the group that are replaced for their age at once is reached", time.Time{})
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
		case in.mayBeCondemned() && in.Condemning == ReasonForcedExpiry:
			n++ // perhaps
		case p.due[in.ID].reason == ReasonForcedExpiry && len(p.replacementsOf(in)) > 0:
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
