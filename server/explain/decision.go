package explain

import (
	"fmt"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// What a decision is about, in the words of the API. A note of package fleet may
// bring others.
const (
	Create  = "create"
	Condemn = "condemn"
	Hasten  = "hasten" // to shorten a drain
	Delete  = "delete"
)

// Decision is one thing that is done, or would be if nothing blocked it.
// Decisions are comparable values.
type Decision struct {
	Group    fleet.GroupID
	Instance identity.ID // empty: none in particular, such as a create of one more
	Action   string
	Reason   string // why it is wanted; may be empty where BlockedWhy says all
	Cause    string // the same in one word, from a fixed list; for metrics
	Count    int    // how many alike were decided at once; at least 1
	At       time.Time

	BlockedBy  fleet.Blocker // what blocks it; empty: nothing
	BlockedWhy string        // the same in words
	NotBefore  time.Time     // when it goes on by itself; zero: not known
}

// Blocked reports whether the decision is not carried out now.
func (d Decision) Blocked() bool { return d.BlockedBy != "" }

// Why is the reason, with the number of decisions that it stands for.
func (d Decision) Why() string {
	if d.Count > 1 {
		return fmt.Sprintf("%s; %d at once", d.Reason, d.Count)
	}
	return d.Reason
}

// said is what makes a blocked decision the same as one of an earlier pass: the
// moments in it may move.
func (d Decision) said() Decision {
	d.At, d.NotBefore = time.Time{}, time.Time{}
	return d
}

// alike is what decisions of one pass have in common that are shown as one.
func (d Decision) alike() Decision {
	d.Count = 0
	return d
}

// ofAction is the decision behind an action.
func ofAction(group fleet.GroupID, action fleet.Action, at time.Time) Decision {
	d := Decision{Group: group, Count: 1, At: at}
	switch a := action.(type) {
	case fleet.Create:
		d.Action, d.Instance, d.Reason, d.Cause = Create, a.Replaces, a.Why, causeOfCreate(a)
	case fleet.Condemn:
		d.Action, d.Instance, d.Reason, d.Cause = Condemn, a.ID, a.Why, string(a.Reason)
	case fleet.ShortenDrain:
		d.Action, d.Instance, d.Reason, d.Cause = Hasten, a.ID, a.Why, string(a.Reason)
	case fleet.Delete:
		d.Action, d.Instance, d.Reason, d.Cause = Delete, a.ID, a.Why, string(a.Reason)
	default:
		panic(fmt.Sprintf("unknown action %T", action))
	}
	return d
}

func causeOfCreate(a fleet.Create) string {
	if a.Replaces != "" {
		return "replacement"
	}
	return "size"
}

// ofNote is the decision that the plan itself blocks.
func ofNote(group fleet.GroupID, n fleet.Note, at time.Time) Decision {
	return Decision{
		Group: group, Instance: n.ID, Action: n.What, Count: 1, At: at,
		BlockedBy: n.By, BlockedWhy: n.Why, NotBefore: n.Until,
	}
}

// News returns the decisions of a pass that tell something new: all that were
// carried out, and the blocked ones that were not blocked in the pass before.
func News(before, now []Decision) []Decision {
	known := make(map[Decision]bool, len(before))
	for _, d := range before {
		if d.Blocked() {
			known[d.said()] = true
		}
	}
	var news []Decision
	for _, d := range now {
		if !known[d.said()] {
			news = append(news, d)
		}
	}
	return news
}
