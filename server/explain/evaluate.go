package explain

import (
	"time"

	"nstance.dev/server/fleet"
)

// Blocks are what blocks actions whatever the plan says. The zero Blocks block
// every create: there is no room for one.
type Blocks struct {
	Pause   fleet.Block // everything; zero: no pause
	Listing fleet.Block // deletes; zero: the provider's listing can be believed

	// Room is how many creates may be handed on now; Beyond blocks the rest.
	Room   int
	Beyond fleet.Block
}

// Evaluation is what becomes of a plan.
type Evaluation struct {
	Send  []fleet.Action // in the order of the plan
	Shown []Decision     // all that is wanted, sent or blocked, alike ones as one
	Wake  time.Time      // when to look again because a block ends; zero: no need
}

// Evaluate says which actions of a plan are carried out now, and what is to be
// shown of it. A paused group sends nothing, not even the announcement of an
// end: the decisions stand, and are made again when the pause is over (S23).
func Evaluate(group fleet.GroupID, plan fleet.Decision, blocks Blocks, now time.Time) Evaluation {
	var e Evaluation
	for _, a := range plan.Actions {
		d := ofAction(group, a, now)
		if block := blocks.of(a); block.By != "" {
			d.BlockedBy, d.BlockedWhy, d.NotBefore = block.By, block.Why, block.Until
			e.wakeAt(block.Until)
		} else {
			e.Send = append(e.Send, a)
		}
		e.show(d)
	}
	for _, n := range plan.Notes {
		e.show(ofNote(group, n, now))
	}
	return e
}

// of is what blocks an action, if anything does. It uses up room.
func (b *Blocks) of(a fleet.Action) fleet.Block {
	if b.Pause.By != "" {
		return b.Pause
	}
	switch a.(type) {
	case fleet.Create:
		if b.Room--; b.Room < 0 {
			return b.Beyond
		}
	case fleet.Delete:
		return b.Listing
	}
	return fleet.Block{}
}

// show adds a decision, or counts it with the ones before it that are alike.
func (e *Evaluation) show(d Decision) {
	if n := len(e.Shown); n > 0 && e.Shown[n-1].alike() == d.alike() {
		e.Shown[n-1].Count++
		return
	}
	e.Shown = append(e.Shown, d)
}

func (e *Evaluation) wakeAt(t time.Time) {
	if !t.IsZero() && (e.Wake.IsZero() || t.Before(e.Wake)) {
		e.Wake = t
	}
}
