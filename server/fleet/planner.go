package fleet

import (
	"cmp"
	"time"

	"nstance.dev/protos/identity"
)

// planner is one run of Plan: what the passes read, what they have decided so far, and
// how they say it. Each pass has a file; none calls another.
type planner struct {
	v   View
	now time.Time
	d   Decision

	all           []*Instance // of the group, oldest first
	byID          map[identity.ID]*Instance
	isReplacement map[identity.ID]bool // somebody not leaving is replaced by it
	condemned     map[identity.ID]bool // in this pass
	due           map[identity.ID]replacement
}

func (p *planner) act(a Action) { p.d.Actions = append(p.d.Actions, a) }

// note says that something is blocked. The group is planned again at until,
// if that is known.
func (p *planner) note(id identity.ID, what string, by Blocker, why string, until time.Time) {
	p.d.Notes = append(p.d.Notes, Note{ID: id, What: what, By: by, Why: why, Until: until})
	p.wakeAt(until)
}

// wakeAt makes sure that the group is planned again at t, if not sooner.
func (p *planner) wakeAt(t time.Time) {
	if !t.IsZero() && (p.d.Wake.IsZero() || t.Before(p.d.Wake)) {
		p.d.Wake = t
	}
}

// noteCreatesBlocked notes that a create is blocked.
func (p *planner) noteCreatesBlocked(id identity.ID, what string) {
	block := p.v.CreatesBlocked
	p.note(id, what, cmp.Or(block.By, BlockerBackOff), block.Why, block.Until)
}

// condemn plans the removal of in, unless this pass has done so already.
func (p *planner) condemn(in *Instance, reason Reason, why string) {
	if p.condemned[in.ID] {
		return
	}
	p.condemned[in.ID] = true
	r := NewRemoval(p.v.Group, p.v.DrainCoordinated, *in, reason, p.now)
	p.act(Condemn{ID: in.ID, Reason: reason, Drain: r.hasDrain(), DeleteAt: r.DeleteAt, Why: why})
}

// LongestIDAge is how old an instance id may be that a caller made itself. For as long the
// caller may repeat its call, and has to be told what became of the instance.
const LongestIDAge = 24 * time.Hour

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
