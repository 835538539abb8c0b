package shard

import (
	"fmt"
	"sync"
	"time"

	"nstance.dev/server/fleet"
)

// breakers stop groups whose machines never register from making new ones for
// ever (L3): what such a group asks for in place of a machine that never
// registered comes out of an hourly bound. It is safe for concurrent use.
type breakers struct {
	mu      sync.Mutex
	byGroup map[fleet.GroupID]*breaker
}

type breaker struct {
	owed  int    // machines that never registered and were not made up for yet
	tries window // creates that made up for one
}

func newBreakers() *breakers { return &breakers{byGroup: map[fleet.GroupID]*breaker{}} }

// failed notes that a machine of the group ended without having registered.
func (b *breakers) failed(group fleet.GroupID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.byGroup[group]
	if e == nil {
		e = &breaker{tries: window{span: time.Hour}}
		b.byGroup[group] = e
	}
	e.owed++
}

// room is how many creates the group may send now under the hourly bound, and
// when there will be more; false: the bound does not matter to it.
func (b *breakers) room(group fleet.GroupID, bound int, now time.Time) (int, time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.byGroup[group]
	if e == nil || e.owed == 0 {
		return 0, time.Time{}, false
	}
	room, next := e.tries.room(bound, now)
	return room, next, true
}

// gate says whether creates of the group may be sent now.
func (b *breakers) gate(group fleet.GroupID, bound int, now time.Time) fleet.Gate {
	room, next, bounded := b.room(group, bound, now)
	if !bounded || room > 0 {
		return fleet.Gate{}
	}
	return fleet.Gate{By: fleet.BlockerCrashLoop, Until: next,
		Blocked: fmt.Sprintf("crash-looping: its machines do not register; %d new ones were tried within an hour", bound)}
}

// tried notes that a create of the group is on record.
func (b *breakers) tried(group fleet.GroupID, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.byGroup[group]; e != nil && e.owed > 0 {
		e.owed--
		e.tries.add(now)
	}
}

// reset forgets the failures: a machine has registered, or somebody edited the
// group.
func (b *breakers) reset(group fleet.GroupID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byGroup, group)
}
