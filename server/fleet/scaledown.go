package fleet

import (
	"cmp"
	"slices"
	"time"

	"nstance.dev/protos/identity"
)

// removeRetired condemns what a caller named, whatever the size: the size was
// lowered with the naming. A replacement that was made for one of them is not
// needed any more.
func (p *planner) removeRetired() {
	for _, named := range p.v.Group.Retired {
		in, ok := p.byID[named.ID]
		if !ok || !p.removable(in) {
			continue
		}
		for _, replacement := range p.withReplacements(in) {
			if replacement != in {
				p.condemn(replacement, ReasonScaleDown, "what it was to replace is named to go")
			}
		}
		gone := *in // the View stays as it is
		gone.SkipDrain = gone.SkipDrain || named.SkipDrain
		p.condemn(&gone, ReasonRequested, "named to go")
	}
}

// removable reports whether a scale-down may delete in.
func (p *planner) removable(in *Instance) bool {
	return !in.OnDemand && !p.condemned[in.ID] && (in.State.Live() || in.State.Sick())
}

// scaleDown condemns what is too many. A size that a caller set is obeyed at
// once; the deletion of a group, which no caller sized, within its bound.
func (p *planner) scaleDown() {
	surplus := p.surplus()
	reason, why := ReasonScaleDown, "more than the size asks for"
	if p.v.Group.Deleted {
		reason, why = ReasonGroupDeleted, "its group is deleted"
	}
	for _, in := range p.victims() {
		if surplus <= 0 {
			return
		}
		went := false
		for _, v := range p.withReplacements(in) {
			if !p.condemned[v.ID] && p.mayRemove(v) {
				p.condemn(v, reason, why)
				went = true
			}
		}
		if went {
			surplus--
		}
	}
}

// surplus is how many units are too many once what goes in any case is gone: what may be
// condemned on record, what a caller named, and failed launches.
func (p *planner) surplus() int {
	actual := 0
	for _, in := range p.all {
		if !p.removable(in) {
			continue
		}
		if len(p.replacementsOf(in)) == 0 {
			actual++
		}
	}
	return actual - p.d.Counts.Desired
}

// victims are the instances that a scale-down may delete, in the order in which it
// does: what has no VM yet, what is sick or taken back, what has not joined,
// replacements that are not needed any more, then the oldest, and last what is on hold. The replacement of
// one that is being replaced counts as that one, not for itself.
func (p *planner) victims() []*Instance {
	spare := make(map[identity.ID]bool)
	var all []*Instance
	for _, in := range p.all {
		if !p.removable(in) {
			continue
		}
		if in.State.Live() && !p.hasToBeReplaced(in) {
			spare[in.Replacement] = true // in is well again
		}
		if !p.isReplacement[in.ID] {
			all = append(all, in)
		}
	}
	slices.SortStableFunc(all, func(a, b *Instance) int {
		return cmp.Compare(victimRank(a, spare, p.now), victimRank(b, spare, p.now))
	})
	return all
}

func victimRank(in *Instance, spare map[identity.ID]bool, now time.Time) int {
	switch {
	case in.State == Pending && (in.Power == NoVM || in.Power == Unasked):
		return 0
	case in.State.Sick() || in.Notice.Given():
		return 1
	case in.State == Pending || in.State == Provisioning:
		return 2
	case spare[in.ID]:
		return 3
	case in.Hold.InForce(now):
		return 5 // work at it is under way, and would be lost
	default:
		return 4
	}
}

// withReplacements returns what goes if in is a victim, in this order: its replacements, then in itself. They
// count as one.
func (p *planner) withReplacements(in *Instance) []*Instance {
	all := p.replacementsOf(in)
	slices.Reverse(all)
	return append(all, in)
}

// mayRemove takes in out of the budgets of group deletions, the shard's and the group's
// own, where they bind. What surely has no running VM does not need one.
func (p *planner) mayRemove(in *Instance) bool {
	if !p.v.Group.Deleted || !in.MayRun() {
		return true
	}
	own := &p.v.OwnDeletes
	switch {
	case p.v.Deletes == 0:
		p.note(in.ID, "condemn", BlockerBound, "the shard's limit of deletes in a minute is reached", p.v.DeletesNext)
		return false
	case own.Limited && own.Left <= 0:
		p.note(in.ID, "condemn", BlockerBound, "the group's limit of deletes in a minute is reached (rails.max_delete_share)", own.Next)
		return false
	}
	p.v.Deletes-- // negative stays so
	own.Left--
	return true
}
