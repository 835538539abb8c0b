// Package stuck gives numbers to Pods that stay unschedulable although the capacity that they
// ask for is there.
//
// Sums say nothing about fragments: three replicas that must not share a host need three
// machines, whatever one machine has free. Such Pods count in rows of their own, which only
// machines that were bought for the row serve. [Tracker.Step] says which Pod counts in which
// row; the number is part of what the operator adds up and sends.
//
// A Pod gets a number when waiting has shown that nothing else will help: it has been
// unschedulable for [After], two roll-ups have spoken of it, no machine for its need is in
// flight and no shard reports that it falls short of the need. It keeps the number until
// [Keep] after the last Pod of the row was placed. A number is not used again for [Keep] after
// its row has ended, so that no machine of an old row serves a new one. A Pod that its row
// does not help moves to another number, each time after twice the wait.
//
// The package is pure: time and what is observed are arguments. What it remembers is lost with
// the process; a Pod that is still stuck then gets its number again as it did before. It
// leaves to others who observes Pods and shards, and what is bought.
package stuck

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"nstance.dev/protos/needs"
)

// Times of the rules.
const (
	// After is how long a Pod is unschedulable before it gets a number, and how long the
	// machines of its row may be there before it moves to another one for the first time.
	After = 60 * time.Second
	// Keep is how long a row outlives the placing of its last Pod, and how long its number
	// rests after that.
	Keep = 10 * time.Minute
	// longestWait bounds the doubling of the wait before a Pod moves again.
	longestWait = time.Hour
	// leastRollups is how many roll-ups have to have spoken of a Pod.
	leastRollups = 2
)

// Pod is what is observed of one Pod that is unschedulable or has a number.
type Pod struct {
	UID string
	// Need is the need that the Pod is part of: its fingerprint, group and size class in one
	// text of the caller's.
	Need string
	// Unschedulable is since when kube-scheduler finds no Node for it; zero when it has one.
	Unschedulable time.Time
	// Rollups is how many roll-ups have spoken of it.
	Rollups int
	// Apart: it must not share a host with Pods like itself, so it needs a row of its own.
	Apart bool
}

// Need is what the shards say of one need, all its rows taken together.
type Need struct {
	InFlight  bool // a machine that it matches is being made or is joining
	Shortfall bool // a shard reports that it falls short of it
}

// Tracker remembers which Pod has which number. The zero value is of use. It is not safe for
// concurrent use.
type Tracker struct {
	pods map[string]*member
	rows map[rowID]*row
}

type rowID struct {
	need   string
	number uint32
}

// row is one number of one need, from its first Pod until it may be used again.
type row struct {
	apart  bool      // for one Pod alone
	open   bool      // it has Pods, or had one until a short time ago
	placed time.Time // since when no Pod of it waits; zero while one does
	ended  time.Time // when it ended; for rows that are not open
}

type member struct {
	row   rowID
	since time.Time // since when it has this number
	busy  time.Time // when something was in flight or short last
	moves int
}

// Step takes what is observed at one time and returns the number of each Pod that has one, by
// UID. A Pod that is not among those observed is gone.
func (t *Tracker) Step(now time.Time, pods []Pod, all map[string]Need) map[string]uint32 {
	if t.pods == nil {
		t.pods, t.rows = map[string]*member{}, map[rowID]*row{}
	}
	observed := make(map[string]Pod, len(pods))
	for _, p := range pods {
		observed[p.UID] = p
	}
	t.forget(observed)
	t.end(now, observed)
	// In order of UID, so that the same Pods get the same numbers.
	sorted := slices.SortedFunc(maps.Values(observed), func(a, b Pod) int {
		// Those that stay apart come first: all others share the number after theirs.
		return cmp.Or(cmp.Compare(a.Need, b.Need), compareBool(b.Apart, a.Apart), cmp.Compare(a.UID, b.UID))
	})
	for _, p := range sorted {
		need := all[p.Need]
		m := t.pods[p.UID]
		if m != nil && (need.InFlight || need.Shortfall) {
			m.busy = now
		}
		switch {
		case p.Unschedulable.IsZero() || need.InFlight || need.Shortfall:
		case m == nil && now.Sub(p.Unschedulable) >= After && p.Rollups >= leastRollups:
			t.assign(now, p, 0)
		case m != nil && now.Sub(later(m.since, m.busy)) >= wait(m.moves):
			t.assign(now, p, m.moves+1)
		}
	}
	numbers := make(map[string]uint32, len(t.pods))
	for uid, m := range t.pods {
		numbers[uid] = m.row.number
	}
	return numbers
}

// wait is how long a row has to help before a Pod moves on: After, doubled with each move.
func wait(moves int) time.Duration {
	w := After
	for range moves {
		if w *= 2; w >= longestWait {
			return longestWait
		}
	}
	return w
}

// forget drops Pods that are gone or that are part of another need now.
func (t *Tracker) forget(observed map[string]Pod) {
	maps.DeleteFunc(t.pods, func(uid string, m *member) bool {
		p, here := observed[uid]
		return !here || p.Need != m.row.need
	})
}

// end closes the rows whose Pods have all been placed long enough, and those without Pods;
// and forgets those whose number may be used again.
func (t *Tracker) end(now time.Time, observed map[string]Pod) {
	waiting, members := map[rowID]bool{}, map[rowID]bool{}
	for uid, m := range t.pods {
		members[m.row] = true
		if !observed[uid].Unschedulable.IsZero() {
			waiting[m.row] = true
		}
	}
	for id, r := range t.rows {
		switch {
		case !r.open:
			if now.Sub(r.ended) >= Keep {
				delete(t.rows, id)
			}
		case waiting[id]:
			r.placed = time.Time{}
		case !members[id]:
			r.open, r.ended = false, now
		case r.placed.IsZero():
			r.placed = now
		case now.Sub(r.placed) >= Keep:
			r.open, r.ended = false, now
		}
	}
	maps.DeleteFunc(t.pods, func(_ string, m *member) bool { return !t.rows[m.row].open })
}

// assign gives a Pod a number that it has not now: one of its own if it stays apart, else the
// one that others of its need share. When no number is free the Pod stays where it is.
func (t *Tracker) assign(now time.Time, p Pod, moves int) {
	var before uint32
	if m := t.pods[p.UID]; m != nil {
		before = m.row.number
	}
	for n := uint32(1); n <= needs.MostStuck; n++ {
		id := rowID{p.Need, n}
		r := t.rows[id]
		shared := r != nil && r.open && !r.apart && !p.Apart && n > before
		if r != nil && !shared {
			continue
		}
		if r == nil {
			t.rows[id] = &row{apart: p.Apart, open: true}
		} else {
			r.placed = time.Time{}
		}
		t.pods[p.UID] = &member{row: id, since: now, moves: moves}
		return
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
