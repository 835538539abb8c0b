package shard

import (
	"fmt"
	"sync"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/decisions"
	"nstance.dev/server/fleet"
)

// breakers holds the breaker of every group whose machines came to nothing lately.
// It is safe for concurrent use.
type breakers struct {
	mu      sync.Mutex
	byGroup map[fleet.GroupID]fleet.Breaker
}

func newBreakers() *breakers { return &breakers{byGroup: map[fleet.GroupID]fleet.Breaker{}} }

// failed notes that a machine of a group came to nothing, and why.
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

// reportFailedLaunch tells the tenant why a new machine ended, where the provider says
// so. What follows for its group, [Reign.reportNothing] says.
func (r *Reign) reportFailedLaunch(row cache.Instance, said string) {
	now := r.now()
	if said != "" && fleet.Young(row.Instance, now) {
		r.events.failure(r.cache, row.Group, row.ID, decisions.FailedLaunch, "the machine does not run: "+said, now)
	}
}

// reportNothing tells the tenant what follows from a machine that came to nothing,
// if its group makes no others for a while, or replaces none that work.
func (r *Reign) reportNothing(row cache.Instance) {
	now, breaker := r.now(), r.breakers.of(row.Group)
	if gate := breaker.Creates(r.tries(row.Group), now); gate.Blocked != "" {
		r.failureEvent(row, gate)
	}
	gate := breaker.Rotation(row.InfraHash, now)
	if gate.Blocked == "" {
		return
	}
	for _, in := range r.cache.Fleet(row.Group) {
		if in.Replacement == row.ID && in.State.Registered() {
			gate.Blocked += fmt.Sprintf("; %s stays, and the next try is at %s", in.ID, gate.Until.UTC().Format(time.RFC3339))
			r.failureEvent(row, gate)
			return
		}
	}
}

// failureEvent tells the tenant of an instance why its group waits.
func (r *Reign) failureEvent(row cache.Instance, gate fleet.Gate) {
	r.log.Warn("group waits", "tenant", row.Group.Tenant, "group", row.Group.Name, "instance", row.ID,
		"class", gate.By, "reason", gate.Blocked)
	r.events.failure(r.cache, row.Group, row.ID, string(gate.By), gate.Blocked, r.now())
}
