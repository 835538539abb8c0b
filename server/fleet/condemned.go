package fleet

import "slices"

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
		p.act(ShortenDrain{ID: in.ID, Reason: in.Removal.Reason, DeleteAt: end, Why: "the provider takes its VM back before the drain would end"})
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
	case !in.Removal.hasDrain():
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
		case !in.mayBeCondemned():
		case in.Writing:
			p.condemned[in.ID] = true // the group is planned again when it is done
		case in.Condemning == ReasonGroupDeleted && !p.mayRemove(in):
			p.condemned[in.ID] = true // a note says for what it waits
		default:
			p.condemn(in, in.Condemning, "whether it is marked for deletion already is not known")
		}
	}
}
