package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"nstance.dev/protos/identity"
)

// Plan returns what brings the group closer to what it should be, most urgent
// first: deletes that are due, condemnations whose outcome is not known, failed launches,
// scale-down, expiry that cannot wait, repair, voluntary replacement, scale-up.
//
// Carrying an action out changes the View; the caller then plans again, and
// must not plan before: two plans of one View ask for the same things twice.
// What a plan condemns is backfilled by the next one, when the removal is on
// record. An instance is replaced in two steps: a Create that names it, and
// once the new instance stands in the View its own Condemn. Of a group whose instances follow
// from demand, those alone are condemned that have to go at once: what takes their place, and what
// is too many, package demand decides.
func Plan(v View, now time.Time) Decision {
	p := newPlanner(v, now)
	p.finishRemovals()
	if v.Group.Blocked != "" {
		p.note("", "everything", cmp.Or(v.Group.BlockedBy, BlockerUnknownGroup), v.Group.Blocked, time.Time{})
		return p.d
	}
	p.repeatCondemnations()
	p.removeRetired()
	p.removeFailedLaunches()
	if v.Group.Demand && !v.Group.Deleted {
		p.expireOnDemand()
		p.condemnUrgent()
		return p.d
	}
	p.scaleDown()
	p.expireOnDemand()
	p.expire()
	p.repair()
	p.rotate()
	p.scaleUp()
	return p.d
}

func newPlanner(v View, now time.Time) *planner {
	p := &planner{
		v: v, now: now,
		byID:          make(map[identity.ID]*Instance, len(v.Instances)),
		isReplacement: make(map[identity.ID]bool),
		condemned:     make(map[identity.ID]bool),
		due:           make(map[identity.ID]replacement),
	}
	for i := range v.Instances {
		if in := &v.Instances[i]; in.Group == v.Group.ID {
			p.all = append(p.all, in)
			p.byID[in.ID] = in
		}
	}
	slices.SortFunc(p.all, func(a, b *Instance) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	p.findReplacements()
	p.count()
	return p
}

// count fills in the numbers that the passes compare, all of one snapshot: what
// a pass condemns it also replaces, so they hold to its end.
func (p *planner) count() {
	c := &p.d.Counts
	c.Desired = p.v.Group.Desired()
	for _, in := range p.all {
		if in.OnDemand {
			if in.State != Deleted {
				c.OnDemand++
			}
			continue
		}
		switch {
		case in.State == Pending:
			c.Pending++
		case in.State == Provisioning:
			c.Provisioning++
		case in.State.Registered():
			c.Running++
		case in.State.Sick():
			c.Sick++
		case in.State.Leaving():
			c.Leaving++
		}
		if replacements := p.replacementsOf(in); len(replacements) > 0 {
			p.isReplacement[replacements[0].ID] = true
			if !p.due[in.ID].undecided {
				c.Pairs++ // else it may be two that are both needed
			}
		}
	}
	c.Live = c.Pending + c.Provisioning + c.Running
	c.Actual = c.Live + c.Sick - c.Pairs
}

// scaleUp asks for what the group is short of.
func (p *planner) scaleUp() {
	c := p.d.Counts
	missing := c.Desired - c.Actual
	if missing <= 0 {
		return
	}
	if p.v.CreatesBlocked.Why != "" {
		p.noteCreatesBlocked("", "create")
		return
	}
	why := fmt.Sprintf("%d of %d", c.Actual, c.Desired)
	for range missing {
		p.act(Create{Group: p.v.Group.ID, Why: why})
	}
}
