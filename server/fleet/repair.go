package fleet

import (
	"cmp"
	"slices"
	"time"
)

// repair carries out the replacements that cannot wait: of sick instances, those
// first whose VM does not run, of those that the provider takes back, and of those
// that a caller named. What never joined is gone already, and a size below the number of
// instances was served; a deleted group has no instance left to replace.
func (p *planner) repair() {
	instances := p.urgentInstances()
	if p.v.Silence != "" && slices.ContainsFunc(p.all, func(in *Instance) bool { return in.State == Suspect }) {
		p.note("", "replace", BlockerUnproven, p.v.Silence, time.Time{})
	}
	s := newSlots(p)
	for _, in := range instances {
		switch {
		case in.OnDemand:
			p.condemnSick(in, &s, endOf(in), "on demand: not replaced")
		case !p.v.Group.Deleted:
			p.replace(in, p.due[in.ID], &s)
		}
	}
}

// urgentInstances are the instances that have to go for a reason that does not wait, the most
// urgent first.
func (p *planner) urgentInstances() []*Instance {
	var found []*Instance
	for _, in := range p.all {
		if urgent(in) && !p.condemned[in.ID] {
			found = append(found, in)
		}
	}
	slices.SortStableFunc(found, func(a, b *Instance) int {
		return cmp.Compare(repairRank(a), repairRank(b))
	})
	return found
}

// condemnUrgent condemns the instances that have to go at once, without asking for others in their
// place. Those whose VM runs go a few at a time, as in repair.
func (p *planner) condemnUrgent() {
	s := newSlots(p)
	for _, in := range p.urgentInstances() {
		reason, why := ReasonRequested, "a caller named it"
		switch {
		case in.State.Sick():
			reason, why = in.verdict(), "it is unhealthy"
		case in.Notice.Given():
			reason, why = ReasonSpotTermination, "the provider takes it back"
		}
		p.condemnSick(in, &s, reason, why)
	}
}

// removeFailedLaunches condemns what never joined, which goes whatever the size is, and
// without a replacement. It goes first: the size then costs no other one for it (S6).
func (p *planner) removeFailedLaunches() {
	for _, in := range p.all {
		if in.State.Sick() && in.verdict().NeverJoined() {
			p.condemn(in, in.verdict(), "it never joined")
		}
	}
}

// urgent reports whether the instance has to go for a reason that does not
// wait for a good moment.
func urgent(in *Instance) bool {
	return in.State.Sick() || in.State.Live() && (in.Notice.Given() || in.ReplaceFirst && !in.OnDemand)
}

// endOf is the reason for which an urgent on-demand instance goes.
func endOf(in *Instance) Reason {
	if in.State.Sick() {
		return in.verdict()
	}
	return ReasonSpotTermination
}

// replace takes the next of the two steps: ask for the replacement, or, when it
// is there, condemn what it replaces.
func (p *planner) replace(in *Instance, due replacement, s *slots) {
	step, why := p.next(in, due, "replace")
	switch {
	case step == stepCondemn && p.v.Losses.Limited && in.Power == Gone && len(p.replacementsOf(in)) == 0:
		// Without it, those that were lost at once would be made up for at once.
		p.noteCreatesBlocked(in.ID, "replace")
	case step == stepCondemn:
		p.condemnSick(in, s, due.reason, why)
	case step == stepWait: // a note says for what
	case !in.ReplaceFirst && p.hasSurplus():
		// Of some it is open whether their replacements are needed, and the removal of
		// others is not on record (S5). That is settled soon.
		p.note(in.ID, "replace", BlockerReplacement, "more are live than the size asks for, until other removals and replacements are done", time.Time{})
	case !p.mayLose(in):
		p.note(in.ID, "replace", BlockerBound, "the limit of lost machines that are replaced in a minute is reached", p.v.Losses.Next)
	case bounded(in) && !p.isReplacement[in.ID] && s.reserved >= s.limit:
		p.note(in.ID, "replace", BlockerBound, "the limit of running machines under repair at once is reached", time.Time{})
	default:
		if bounded(in) {
			s.reserved++
		}
		p.act(Create{Group: p.v.Group.ID, Replaces: in.ID, Why: why})
	}
}

// hasSurplus reports whether more instances are well than the group should have, without any
// that have to go at once. What this pass condemns counts as well: until that is on record
// it may stay, and a replacement would be asked for beside it.
func (p *planner) hasSurplus() bool {
	well := 0
	for _, in := range p.all {
		if in.State.Live() && !in.OnDemand && !urgent(in) {
			well++
		}
	}
	return well > p.d.Counts.Desired
}

// condemnSick condemns an instance that has to go. A sick one whose VM runs needs
// a slot.
func (p *planner) condemnSick(in *Instance, s *slots, reason Reason, why string) {
	if bounded(in) {
		if s.leaving >= s.limit {
			p.note(in.ID, "condemn", BlockerBound, "the limit of running machines that are removed at once is reached", time.Time{})
			return
		}
		s.leaving++
	}
	p.condemn(in, reason, why)
}

// bounded reports whether the removal of in is one that slots count: what the
// provider takes back, or a caller named, is not.
func bounded(in *Instance) bool { return in.State.Sick() && in.Power == Up }

// slots count the repair of instances whose VM still runs: three missed reports
// are no proof that a machine does no work, so they go a few at a time.
type slots struct {
	limit    int
	leaving  int // condemned for their health, and not gone
	reserved int // leaving, or with a replacement made or asked for
}

// newSlots counts those that are taken.
func newSlots(p *planner) slots {
	s := slots{limit: p.v.MaxRepairs}
	if s.limit <= 0 {
		s.limit = max(1, p.v.Group.Size/10)
	}
	for _, in := range p.all {
		switch {
		case in.State.Leaving() && in.Removal.Reason == ReasonUnhealthy && stillRuns(in):
			s.leaving++
		case in.mayBeCondemned() && in.Condemning == ReasonUnhealthy && in.Power == Up:
			s.leaving++ // perhaps
		case bounded(in) && !p.isReplacement[in.ID] && len(p.replacementChain(in)) > 0:
			s.reserved++
		}
	}
	s.reserved += s.leaving
	return s
}

// stillRuns reports whether a leaving instance may do work, or did when it was
// condemned.
func stillRuns(in *Instance) bool {
	return in.Power == Up || in.Power != Gone && in.Removal.hasDrain()
}

// mayLose takes the replacement of a lost machine out of the budget, if one
// binds.
func (p *planner) mayLose(in *Instance) bool {
	switch {
	case !p.v.Losses.Limited || in.Power != Gone:
		return true
	case p.v.Losses.Left <= 0:
		return false
	default:
		p.v.Losses.Left--
		return true
	}
}

// repairRank orders repairs: what is lost goes before what still runs.
func repairRank(in *Instance) int {
	switch {
	case in.State.Sick() && in.Power != Up:
		return 0
	case in.Notice.Given():
		return 1
	default:
		return 2
	}
}
