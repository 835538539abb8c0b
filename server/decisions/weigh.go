package decisions

import (
	"time"

	"nstance.dev/server/fleet"
)

// Rails are what holds actions back whatever the plan says. The zero Rails hold
// back every create: there is no room for one.
type Rails struct {
	Pause   Hold // everything; zero: no pause
	Listing Hold // deletes; zero: the provider's listing can be believed

	// Room is how many creates may be handed on now; beyond holds the rest.
	Room   int
	Beyond Hold
}

// Hold is something that holds actions back. The zero Hold does not.
type Hold struct {
	By    fleet.Blocker
	Why   string
	Until time.Time // when it ends by itself; zero: not known
}

// Verdict is what becomes of a plan.
type Verdict struct {
	Send  []fleet.Action // in the order of the plan
	Shown []Decision     // all that is wanted, sent or held, alike ones as one
	Wake  time.Time      // when to look again because a hold ends; zero: no need
}

// Weigh says which actions of a plan are carried out now, and what is to be
// shown of it. A paused group sends nothing, not even the announcement of an
// end: the decisions stand, and are made anew when the pause is over (S23).
func Weigh(group fleet.GroupID, plan fleet.Decision, rails Rails, now time.Time) Verdict {
	var v Verdict
	for _, a := range plan.Actions {
		d := ofAction(group, a, now)
		if hold := rails.against(a); hold.By != "" {
			d.By, d.HeldBy, d.NotBefore = hold.By, hold.Why, hold.Until
			v.wakeAt(hold.Until)
		} else {
			v.Send = append(v.Send, a)
		}
		v.show(d)
	}
	for _, n := range plan.Notes {
		v.show(ofNote(group, n, now))
	}
	return v
}

// against is what holds an action back, if anything does. It uses up room.
func (r *Rails) against(a fleet.Action) Hold {
	if r.Pause.By != "" {
		return r.Pause
	}
	switch a.(type) {
	case fleet.Create:
		if r.Room--; r.Room < 0 {
			return r.Beyond
		}
	case fleet.Delete:
		return r.Listing
	}
	return Hold{}
}

// show adds a decision, or counts it with the ones before it that are alike.
func (v *Verdict) show(d Decision) {
	if n := len(v.Shown); n > 0 && v.Shown[n-1].alike() == d.alike() {
		v.Shown[n-1].Count++
		return
	}
	v.Shown = append(v.Shown, d)
}

func (v *Verdict) wakeAt(t time.Time) {
	if !t.IsZero() && (v.Wake.IsZero() || t.Before(v.Wake)) {
		v.Wake = t
	}
}
