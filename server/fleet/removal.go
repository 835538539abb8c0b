package fleet

import (
	"slices"
	"time"
)

// Drains reports whether a removal for this reason waits for the work to be
// moved off, where the VM runs and its group drains. What never joined, or is
// not there, has no work to move.
func (r Reason) Drains() bool {
	switch r {
	case ReasonUnhealthy, ReasonSpotTermination, ReasonExpired, ReasonForcedExpiry, ReasonConfigDrift,
		ReasonScaleDown, ReasonGroupDeleted, ReasonRequested, ReasonTenantSleep:
		return true
	default:
		return false
	}
}

// NeverJoined reports whether the reason means that the instance never was of
// use to anybody.
func (r Reason) NeverJoined() bool {
	return r == ReasonRegistrationTimeout || r == ReasonAbandoned
}

// waited reports whether the reason is one that waits for a good moment.
func (r Reason) waited() bool { return r == ReasonExpired || r == ReasonConfigDrift }

// NewRemoval is the removal of in for the given reason, decided at now: with a
// drain if the group has a drain timeout, somebody coordinates drains
// (coordinated), the VM runs and the reason allows it. What the provider takes
// back drains until then at the longest.
func NewRemoval(g Group, coordinated bool, in Instance, why Reason, now time.Time) Removal {
	r := Removal{Reason: why, RequestedAt: now}
	if g.DrainTimeout > 0 && coordinated && !in.SkipDrain && in.Power == Up && why.Drains() {
		r.DrainStarted = now
		r.DeleteAt = now.Add(g.DrainTimeout)
		if d := in.Notice.Deadline; !d.IsZero() && d.Before(r.DeleteAt) {
			r.DeleteAt = d
		}
	}
	if !r.DeleteAt.After(now) {
		r.DrainStarted, r.DeleteAt = time.Time{}, time.Time{} // no time is left
	}
	return r
}

// Revocable reports whether a later leader may take the removal back, to judge the
// instance again: nothing but its health speaks against it, its drain has not begun, and
// nobody has asked for its end.
func (r Removal) Revocable() bool {
	return r.Reason == ReasonUnhealthy && r.DrainStarted.IsZero() && !r.Acked
}

func (r Removal) drains() bool { return !r.DeleteAt.IsZero() }

// finishRemovals plans the deletes of condemned instances whose time has come:
// those without a drain, and those whose drain is over.
func (p *planner) finishRemovals() {
	for _, in := range p.all {
		if in.State != Condemned && in.State != Draining {
			continue // a delete that was sent is repeated by whoever sent it
		}
		why := p.drainOver(in)
		if why == "" {
			p.await(in)
			continue
		}
		p.act(Delete{ID: in.ID, Reason: in.Removal.Reason, Why: why})
	}
}

// await lets a drain go on. Where the provider has said since that it will not wait so
// long, the end is put on record before anything follows from it.
func (p *planner) await(in *Instance) {
	end := in.Removal.DeleteAt
	if d := in.Notice.Deadline; !d.IsZero() && d.Before(end) {
		end = d
		p.act(Hasten{ID: in.ID, Reason: in.Removal.Reason, DeleteAt: end, Why: "the provider takes its VM back before the drain would end"})
	}
	p.wakeAt(end)
}

// drainOver says why a condemned instance need not wait any longer; empty: it
// waits. That its VM is not known yet ends no drain: after a change of leader
// every instance looks so for a moment.
func (p *planner) drainOver(in *Instance) string {
	switch {
	case in.Removal.Acked:
		return "drained"
	case !in.Removal.drains():
		return "nothing to drain"
	case in.Power == Down || in.Power == Gone:
		return "its VM no longer runs"
	case !p.now.Before(in.Removal.DeleteAt):
		return "the drain has timed out"
	case in.SkipDrain, slices.Contains(p.v.Group.Retired, Retired{ID: in.ID, SkipDrain: true}):
		return "a caller does not want to wait"
	default:
		return ""
	}
}

// repeatCondemnations condemns again whatever may be condemned on record already: the
// outcome has to be known, whatever has changed since. Meanwhile nothing is decided as if
// these instances stayed (S6).
func (p *planner) repeatCondemnations() {
	for _, in := range p.all {
		switch {
		case !in.doubtful():
		case in.Writing:
			p.condemned[in.ID] = true // the group is planned again when it is done
		case in.Condemning == ReasonGroupDeleted && !p.mayRemove(in):
			p.condemned[in.ID] = true // a note says for what it waits
		default:
			p.condemn(in, in.Condemning, "the outcome of its condemnation is not known")
		}
	}
}

// doubtful reports whether the instance may be condemned on record.
func (in *Instance) doubtful() bool {
	return in.Condemning != "" && (in.State.Live() || in.State.Sick())
}

// condemn plans the removal of in, unless this pass has done so already.
func (p *planner) condemn(in *Instance, reason Reason, why string) {
	if p.condemned[in.ID] {
		return
	}
	p.condemned[in.ID] = true
	r := NewRemoval(p.v.Group, p.v.Drains, *in, reason, p.now)
	p.act(Condemn{ID: in.ID, Reason: reason, Drain: r.drains(), DeleteAt: r.DeleteAt, Why: why})
}
