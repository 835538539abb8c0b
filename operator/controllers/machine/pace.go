package machine

import (
	"slices"
	"sync"
	"time"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
)

// Bounds of how many instances of one group on one shard go in a minute with Machines that
// were deleted, and not because the group gets smaller. All Machines may have been deleted
// by mistake (F37), and a shard obeys who names an instance; so the bound that it has for
// its own deletions is kept here too (S8).
const (
	paceFloor  = 10
	paceShare  = 4 // of what is there: one in so many
	paceWindow = time.Minute
	// reasonGroupDeleted is the reason of a shard that deletes the instances of a group that was deleted.
	reasonGroupDeleted = "group-deleted"
	// unlisted is when to look again while nobody knows what an earlier process asked for.
	unlisted = time.Second
)

// pace holds when instances were asked to end by this process; what an earlier one asked for,
// the inventory shows, see earlier. The zero value is ready; it is safe for concurrent use.
type pace struct {
	mu   sync.Mutex
	sent map[inventory.ShardGroup][]time.Time
}

// wait is how long it is until one more of a group may be asked for; there is how many
// instances it has whose end is not decided, earlier when others may have been asked for
// before this process began.
func (p *pace) wait(at inventory.ShardGroup, there int, earlier []time.Time, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left(at, there, earlier, now)
}

// take counts one more, unless it has to wait.
func (p *pace) take(at inventory.ShardGroup, there int, earlier []time.Time, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left(at, there, earlier, now) > 0 {
		return false
	}
	if p.sent == nil {
		p.sent = map[inventory.ShardGroup][]time.Time{}
	}
	p.sent[at] = append(p.sent[at], now)
	return true
}

// left is wait. It forgets what was longer ago than the window. The caller holds mu.
func (p *pace) left(at inventory.ShardGroup, there int, earlier []time.Time, now time.Time) time.Duration {
	over := func(t time.Time) bool { return now.Sub(t) >= paceWindow }
	if own := slices.DeleteFunc(p.sent[at], over); len(own) > 0 {
		p.sent[at] = own
	} else {
		delete(p.sent, at)
	}
	sent := slices.DeleteFunc(slices.Concat(earlier, p.sent[at]), over)
	slices.SortFunc(sent, time.Time.Compare)
	bound := max(paceFloor, (there+paceShare-1)/paceShare)
	if len(sent) < bound {
		return 0
	}
	return sent[len(sent)-bound].Add(paceWindow).Sub(now)
}

// earlier returns when instances of the group of a machine were asked to end before this
// process began, as far as can be seen: those whose end was decided then, and those that were
// made, for each may stand in for one that has gone already. Of these it never counts too few, and what
// it counts too much is over in a minute. Those that go because their group was deleted count whenever that was
// decided, as long as their shard lists them: who deletes everything deletes both. False: its shard has not listed its
// instances yet.
func (r *Reconciler) earlier(m *infrav1.NstanceMachine) (times []time.Time, known bool) {
	r.Inventory.Read(m.Spec.Shard, func(s *inventory.Shard) {
		known = !s.State().InstancesAt.IsZero()
		for _, i := range s.Instances(m.Spec.GroupRef.Name) {
			at, now := i.GetCreatedAt().AsTime(), r.Now()
			if c := i.GetCondemned(); c.GetDeleteAt() != nil {
				at = c.GetDeleteAt().AsTime()
			}
			switch {
			case i.GetOnDemand():
			case i.GetCondemned().GetReason() == reasonGroupDeleted:
				if at.After(now) {
					at = now // it is drained until then
				}
				times = append(times, at)
			case at.Before(r.began) && r.began.Sub(at) < paceWindow:
				times = append(times, at)
			}
		}
	})
	return times, known
}

// take counts the end of a machine's instance in, unless it has to wait.
func (r *Reconciler) take(m *infrav1.NstanceMachine) bool {
	earlier, known := r.earlier(m)
	return known && r.pace.take(shardGroupOf(m), r.managed(m), earlier, r.Now())
}
