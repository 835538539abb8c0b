package provisioning

import (
	"sync"
	"time"

	"nstance.dev/server/fleet"
)

// breakers are those of the groups with failed launches.
// It is safe for concurrent use.
type breakers struct {
	mu      sync.Mutex
	byGroup map[fleet.GroupID]fleet.Breaker
}

func newBreakers() *breakers { return &breakers{byGroup: map[fleet.GroupID]fleet.Breaker{}} }

// failed notes that a launch of a group has failed, and why.
func (b *breakers) failed(in fleet.Instance, why string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byGroup[in.Group] = b.byGroup[in.Group].Failed(in, why, now)
}

// tried notes that a create of the group is on record.
func (b *breakers) tried(group fleet.GroupID, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, ok := b.byGroup[group]; ok {
		b.byGroup[group] = e.Tried(now)
	}
}

// of returns the group's breaker as it was left.
func (b *breakers) of(group fleet.GroupID) fleet.Breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byGroup[group]
}

// settle returns the group's breaker as its instances leave it now, and when time
// alone will open it.
func (b *breakers) settle(group fleet.GroupID, instances []fleet.Instance, now time.Time) (fleet.Breaker, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.byGroup[group]
	if !ok {
		return e, time.Time{}
	}
	e, next := e.Settle(instances, now)
	if e.Idle() {
		delete(b.byGroup, group)
	}
	return e, next
}

// reset forgets the failures: somebody edited the group.
func (b *breakers) reset(group fleet.GroupID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byGroup, group)
}
