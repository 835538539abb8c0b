package fleet

import (
	"fmt"
	"slices"
	"time"

	"nstance.dev/protos/identity"
)

// rotate carries out the replacements that can wait for a good moment: of instances
// that are old enough to go, and of those that were made from a configuration that
// is no longer the group's. One at a time, the oldest first. What was begun is
// finished whatever has changed: its replacement is there, and costs. But of several
// that were begun, as of one and of its replacement, one goes after the other (S8), and none
// while the node machine of another one is built (M70). One that is on hold is passed over.
func (p *planner) rotate() {
	if p.v.Group.Deleted {
		return
	}
	var oldest *Instance
	begun, leaving := false, rotatedLeaves(p.all)
	var rebuilt *Instance // another one than those that may go, which are not on hold
	if i := slices.IndexFunc(p.all, func(in *Instance) bool { return in.rebuilt(p.now) }); i >= 0 {
		rebuilt = p.all[i]
	}
	for _, in := range p.all {
		due := p.due[in.ID]
		switch {
		case !due.canWait || p.condemned[in.ID]:
		case in.Hold.InForce(p.now):
			hold := in.Hold.blocks()
			p.note(in.ID, "rotate", hold.By, hold.Why, hold.Until)
		case len(p.replacementsOf(in)) > 0:
			begun = true
			switch step, why := p.next(in, due, "rotate"); {
			case step != stepCondemn:
			case leaving:
				p.note(in.ID, "rotate", BlockerUnsettled, "another instance is leaving", time.Time{})
			case rebuilt != nil:
				p.note(in.ID, "rotate", BlockerHold, fmt.Sprintf("%s is on hold (%s)", rebuilt.ID, rebuilt.Hold.Reason), rebuilt.Hold.Until)
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
	return slices.ContainsFunc(all, (*Instance).rotatedLeaves)
}

func (in *Instance) rotatedLeaves() bool {
	switch {
	case in.OnDemand || in.Power == Down || in.Power == Gone:
		return false
	case in.State.Leaving():
		return in.Removal.Reason.Waits()
	default:
		return in.mayBeCondemned() && in.Condemning.Waits() // perhaps
	}
}

// Unwell reports whether an instance is known to be silent, or not to run.
func (in *Instance) Unwell() bool {
	return in.State == Suspect || in.State == Unhealthy || in.Power == Down || in.Power == Gone
}

// Rebuilt returns an instance among all, another one than the named one, on which a node machine is built or is about
// to be: until it is there, no other one is replaced by choice.
func Rebuilt(all []Instance, but identity.ID, now time.Time) (identity.ID, bool) {
	for i := range all {
		if in := &all[i]; in.ID != but && in.rebuilt(now) {
			return in.ID, true
		}
	}
	return "", false
}

// rebuilt is whether it is on hold for that, and does not leave.
func (in *Instance) rebuilt(now time.Time) bool {
	return (in.Hold.Reason == HoldRollout || in.Hold.Reason == HoldRepave) && in.Hold.InForce(now) && in.State.Live()
}

// Rotates returns an instance among all, another one than the named one, that is replaced at a good moment and leaves,
// or may be about to.
func Rotates(all []Instance, but identity.ID) (identity.ID, bool) {
	for i := range all {
		if in := &all[i]; in.ID != but && in.rotatedLeaves() {
			return in.ID, true
		}
	}
	return "", false
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
