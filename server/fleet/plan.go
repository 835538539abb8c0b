package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"nstance.dev/protos/identity"
)

// View is everything that a decision about one group depends on.
type View struct {
	Group Group

	// Instances are all of the group, in any order, each id once: on-demand and
	// leaving ones included. Those of other groups are overlooked.
	Instances []Instance

	// Creates says whether new instances may be asked for now.
	Creates Gate

	// Drains: the tenant has somebody who moves work off condemned instances.
	Drains bool

	// Deletes is how many removals that only the deletion of the group asks for
	// may start now; negative: any number. It binds in a deleted group alone.
	// DeletesNext is when there will be more; zero: not known.
	Deletes     int
	DeletesNext time.Time

	// MaxRepairs is how many sick instances whose VM still runs may be under
	// replacement or leaving at once. Zero: a tenth of the size, at least 1.
	MaxRepairs int

	// Aging says at which age instances make room.
	Aging Aging

	// Voluntary says whether instances that work may be replaced now, for their
	// age or for what they were made from. Forced expiry does not ask it.
	Voluntary Gate

	// Proving is how long after its registration an instance still may turn out
	// not to work: until then no other one is replaced voluntarily. Zero: it is
	// trusted at its first report.
	Proving time.Duration

	// Silence says why nobody in the shard is found sick for missing reports now;
	// empty: everybody is judged.
	Silence string

	// Losses bounds the replacement of instances whose VM is gone, for the time
	// after a mass loss. The zero Budget does not.
	Losses Budget
}

// Gate is open, or says why not.
type Gate struct {
	Blocked string    // why it is shut; empty: open
	By      Blocker   // what kind of reason that is; zero: BlockerBackOff
	Until   time.Time // when it opens by itself; zero: only an event opens it
}

// Budget is a number of things that may start now. The zero Budget does not
// limit.
type Budget struct {
	Limited bool
	Left    int
	Next    time.Time // when there will be more; zero: not known
}

// Plan returns what brings the group closer to what it should be, most urgent
// first: deletes that are due, condemnations whose outcome is not known, failed launches,
// scale-down, expiry that cannot wait, repair, voluntary replacement, scale-up.
//
// Carrying an action out changes the View; the caller then plans again, and
// must not plan before: two plans of one View ask for the same things twice.
// What a plan condemns is backfilled by the next one, when the removal is on
// record. An instance is replaced in two steps: a Create that names it, and
// once the new instance stands in the View its own Condemn.
func Plan(v View, now time.Time) Decision {
	p := newPlanner(v, now)
	p.finishRemovals()
	if v.Group.Held != "" {
		p.note("", "everything", cmp.Or(v.Group.HeldBy, BlockerHeld), v.Group.Held, time.Time{})
		return p.d
	}
	p.repeatCondemnations()
	p.removeRetired()
	p.removeFailedLaunches()
	p.scaleDown()
	p.expireOnDemand()
	p.expire()
	p.repair()
	p.rotate()
	p.scaleUp()
	return p.d
}

// planner is one run of Plan.
type planner struct {
	v   View
	now time.Time
	d   Decision

	all       []*Instance // of the group, oldest first
	byID      map[identity.ID]*Instance
	heir      map[identity.ID]bool // somebody not leaving is replaced by it
	condemned map[identity.ID]bool // in this pass
	due       map[identity.ID]succession
}

func newPlanner(v View, now time.Time) *planner {
	p := &planner{
		v: v, now: now,
		byID:      make(map[identity.ID]*Instance, len(v.Instances)),
		heir:      make(map[identity.ID]bool),
		condemned: make(map[identity.ID]bool),
		due:       make(map[identity.ID]succession),
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
	p.findSuccessions()
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
		if heirs := p.heirsOf(in); len(heirs) > 0 {
			p.heir[heirs[0].ID] = true
			if !p.due[in.ID].hold {
				c.Pairs++ // else it may be two that are both needed
			}
		}
	}
	c.Live = c.Pending + c.Provisioning + c.Running
	c.Actual = c.Live + c.Sick - c.Pairs
}

// heirs are the instances that took the place of in and are not leaving, in the
// order in which they did: its replacement, the replacement of that one, and so
// on, up to the first that works and does not have to make room itself. Links that
// lead in a circle mean nothing.
func (p *planner) heirs(in *Instance) []*Instance {
	var found []*Instance
	seen := []identity.ID{in.ID}
	for in.Replacement != "" {
		next, ok := p.byID[in.Replacement]
		if !ok || next.OnDemand {
			break
		}
		if slices.Contains(seen, next.ID) {
			return nil
		}
		seen = append(seen, next.ID)
		if next.State.Live() || next.State.Sick() {
			found = append(found, next)
		}
		if next.State.Live() && !p.succeeds(next) {
			break // what was made for it is not needed
		}
		in = next
	}
	return found
}

// scaleUp asks for what the group is short of.
func (p *planner) scaleUp() {
	c := p.d.Counts
	missing := c.Desired - c.Actual
	if missing <= 0 {
		return
	}
	if p.v.Creates.Blocked != "" {
		p.holdCreates("", "create")
		return
	}
	why := fmt.Sprintf("%d of %d", c.Actual, c.Desired)
	for range missing {
		p.act(Create{Group: p.v.Group.ID, Why: why})
	}
}

// holdCreates notes that a create waits for the gate.
func (p *planner) holdCreates(id identity.ID, what string) {
	gate := p.v.Creates
	p.note(id, what, cmp.Or(gate.By, BlockerBackOff), gate.Blocked, gate.Until)
}

func (p *planner) act(a Action) { p.d.Actions = append(p.d.Actions, a) }

// note says that something is held back. The group is planned again at until,
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
