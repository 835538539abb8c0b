package fleet

import (
	"fmt"
	"slices"
	"time"
)

// rotate carries out the replacements that can wait for a good moment: of instances
// that are old enough to go, and of those that were made from a configuration that
// is no longer the group's. One at a time, the oldest first. What was begun is
// finished whatever has changed: its replacement is there, and costs. But of several
// that were begun, as of one and of its replacement, one goes after the other (S8). One that
// is kept or on hold is passed over.
func (p *planner) rotate() {
	if p.v.Group.Deleted {
		return
	}
	var oldest *Instance
	begun, leaving := false, rotatedLeaves(p.all)
	for _, in := range p.all {
		due := p.due[in.ID]
		switch {
		case !due.canWait || p.condemned[in.ID]:
		case in.Hold.InForce(p.now):
			hold := in.Hold.blocks()
			p.note(in.ID, "rotate", hold.By, hold.Why, hold.Until)
		case in.Kept.Why != "":
			p.note(in.ID, "rotate", in.Kept.By, in.Kept.Why, in.Kept.Until)
		case len(p.replacementsOf(in)) > 0:
			begun = true
			switch step, why := p.next(in, due, "rotate"); {
			case step != stepCondemn:
			case leaving:
				p.note(in.ID, "rotate", BlockerUnsettled, "another instance is leaving", time.Time{})
			default:
				p.condemn(in, due.reason, why)
				leaving = true
			}
		case oldest == nil:
			oldest = in
		}
	}
	if oldest == nil || begun || !p.mayRotate(oldest) {
		return
	}
	if step, why := p.next(oldest, p.due[oldest.ID], "rotate"); step == stepCreate {
		p.act(Create{Group: p.v.Group.ID, Replaces: oldest.ID, Why: why})
	}
}

// rotatedLeaves reports whether one of all leaves that was replaced at a good moment, and
// may still run.
func rotatedLeaves(all []*Instance) bool {
	return slices.ContainsFunc(all, func(in *Instance) bool {
		switch {
		case in.OnDemand || in.Power == Down || in.Power == Gone:
			return false
		case in.State.Leaving():
			return in.Removal.Reason.waited()
		default:
			return in.mayBeCondemned() && in.Condemning.waited() // perhaps
		}
	})
}

// mayRotate reports whether this is a good moment to replace in; a note says why
// not. It is one if somebody's window is open, and the group has exactly the
// instances that it should have, all of them registered, heard of, and for long
// enough that the last replacement is known to work.
func (p *planner) mayRotate(in *Instance) bool {
	blocked := func(by Blocker, why string, until time.Time) bool {
		p.note(in.ID, "rotate", by, why, until)
		return false
	}
	c := p.d.Counts
	switch block := p.v.RotationBlocked; {
	case block.Why != "":
		return blocked(block.By, block.Why, block.Until)
	case c.Leaving > 0:
		return blocked(BlockerUnsettled, "another instance is leaving", time.Time{})
	case c.Sick > 0:
		return blocked(BlockerUnsettled, "another instance is unhealthy", time.Time{})
	case c.Live != c.Desired:
		return blocked(BlockerUnsettled, fmt.Sprintf("the group has %d instances, and should have %d", c.Live, c.Desired), time.Time{})
	case c.Running != c.Live:
		return blocked(BlockerUnsettled, fmt.Sprintf("only %d of %d instances have registered", c.Running, c.Live), time.Time{})
	}
	for _, other := range p.all {
		if other.OnDemand || !other.State.Live() {
			continue
		}
		settled := other.RegisteredAt.Add(p.v.SettleTime)
		switch {
		case other.mayBeCondemned():
			return blocked(BlockerUnsettled, fmt.Sprintf("%s may be leaving", other.ID), time.Time{})
		case other.Hold.InForce(p.now):
			return blocked(BlockerHold, fmt.Sprintf("%s is on hold (%s)", other.ID, other.Hold.Reason), other.Hold.Until)
		case other.State == Suspect:
			return blocked(BlockerUnsettled, fmt.Sprintf("nothing is heard of %s", other.ID), time.Time{})
		case other.Notice.Given() || other.ReplaceFirst || p.due[other.ID].reason == ReasonForcedExpiry:
			return blocked(BlockerUnsettled, fmt.Sprintf("%s has to go first", other.ID), time.Time{})
		case !other.Reported:
			return blocked(BlockerUnproven, fmt.Sprintf("%s has not reported yet", other.ID), time.Time{})
		case p.now.Before(settled):
			return blocked(BlockerUnsettled, fmt.Sprintf("%s has registered only just now", other.ID), settled)
		}
	}
	return true
}
