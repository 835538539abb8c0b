package fleet

import (
	"cmp"
	"slices"
	"time"
)

// repair replaces sick instances, those first whose VM does not run. A size
// below the number of instances was served before; a deleted group has no
// instance left to replace.
func (p *planner) repair() {
	var sick []*Instance
	for _, in := range p.all {
		if in.State.Sick() && !p.condemned[in.ID] {
			sick = append(sick, in)
		}
	}
	slices.SortStableFunc(sick, func(a, b *Instance) int {
		return cmp.Compare(runs(a), runs(b))
	})
	s := p.slots()
	for _, in := range sick {
		switch {
		case in.verdict().neverJoined():
			p.condemn(in, in.verdict(), "it never joined")
		case in.OnDemand:
			p.condemnSick(in, &s, "on demand: not replaced")
		case !p.v.Group.Deleted:
			p.replace(in, &s)
		}
	}
}

// replace takes the next of the two steps: ask for the replacement, or, when it
// is there, condemn what it replaces.
func (p *planner) replace(in *Instance, s *slots) {
	heirs := p.staying(p.heirs(in))
	switch {
	case slices.ContainsFunc(heirs, func(h *Instance) bool { return h.State.Live() }):
		p.condemnSick(in, s, "its replacement is there")
	case len(heirs) > 0:
		p.note(in.ID, "replace", BlockerReplacement, "its replacement is sick as well and comes first", time.Time{})
	case p.v.Creates.Blocked != "" && in.Power != Up:
		p.condemn(in, in.verdict(), "its VM does not run, and nothing can be created now")
	case p.v.Creates.Blocked != "":
		p.holdCreates(in.ID, "replace")
	case !p.mayLose(in):
		p.note(in.ID, "replace", BlockerBound, "as many lost machines as allowed in a minute are being replaced", p.v.Losses.Next)
	case in.Power == Up && !p.heir[in.ID] && s.reserved >= s.limit:
		p.note(in.ID, "replace", BlockerBound, "as many machines that still run as allowed are under repair", time.Time{})
	default:
		if in.Power == Up {
			s.reserved++
		}
		p.act(Create{Group: p.v.Group.ID, Replaces: in.ID, Why: "replaces a sick instance"})
	}
}

// condemnSick condemns a sick instance. While its VM runs it needs a slot.
func (p *planner) condemnSick(in *Instance, s *slots, why string) {
	if in.Power == Up {
		if s.leaving >= s.limit {
			p.note(in.ID, "condemn", BlockerBound, "as many machines that still run as allowed are leaving", time.Time{})
			return
		}
		s.leaving++
	}
	p.condemn(in, in.verdict(), why)
}

// slots count the repair of instances whose VM still runs: three missed reports
// are no proof that a machine does no work, so they go a few at a time.
type slots struct {
	limit    int
	leaving  int // condemned for their health, and not gone
	reserved int // leaving, or with a replacement made or asked for
}

func (p *planner) slots() slots {
	s := slots{limit: p.v.MaxRepairs}
	if s.limit <= 0 {
		s.limit = max(1, p.v.Group.Size/10)
	}
	for _, in := range p.all {
		switch {
		case in.State.Leaving() && in.Removal.Reason == ReasonUnhealthy && stillRuns(in):
			s.leaving++
		case in.State.Sick() && in.Power == Up && !p.heir[in.ID] && len(p.heirs(in)) > 0:
			s.reserved++
		}
	}
	s.reserved += s.leaving
	return s
}

// stillRuns reports whether a leaving instance may do work, or did when it was
// condemned.
func stillRuns(in *Instance) bool {
	return in.Power == Up || in.Power != Gone && in.Removal.drains()
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

// verdict is why a sick instance is sick.
func (in *Instance) verdict() Reason {
	return cmp.Or(in.Verdict, ReasonUnhealthy)
}

func runs(in *Instance) int {
	if in.Power == Up {
		return 1
	}
	return 0
}
