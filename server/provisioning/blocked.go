package provisioning

import (
	"fmt"
	"time"

	"nstance.dev/server/fleet"
)

// Blocked says why no machines of a group may be made now, and why machines that work may not
// make room for ones of another configuration, as far as its last machines and creates
// say. The members are all instances of the group.
func (l *Launcher) Blocked(group fleet.Group, members []fleet.Instance, now time.Time) (creates, rotation fleet.Block) {
	breaker, lasts := l.breakers.settle(group.ID, members, now)
	return sooner(l.createsBlocked(group.ID, breaker, now), lasts), sooner(breaker.RotationBlocked(group.InfraHash, now), lasts)
}

// createsBlocked says why no creates of the group may be sent now.
func (l *Launcher) createsBlocked(group fleet.GroupID, breaker fleet.Breaker, now time.Time) fleet.Block {
	if b := l.backoffs.blocked(group, now); b.Why != "" {
		return b
	}
	if b := l.resolver.dependencies.blocked(group); b.Why != "" {
		return b
	}
	return breaker.CreatesBlocked(l.tries(group), now)
}

// sooner is a block that may end at the given time already, if that is set.
func sooner(block fleet.Block, at time.Time) fleet.Block {
	if block.By != fleet.BlockerCrashLoop && block.By != fleet.BlockerRotationStopped {
		return block
	}
	if !at.IsZero() && at.Before(block.Until) {
		block.Until = at
	}
	return block
}

// tries is how many machines in an hour the group may make in place of ones that
// never registered.
func (l *Launcher) tries(group fleet.GroupID) int {
	if eff, ok := l.opts.Groups.Find(group); ok {
		return eff.Rails.NeverRegisteredPerHour
	}
	return l.opts.Groups.Config().Server.Rails.NeverRegisteredPerHour
}

// Room is how many creates of a group may be handed over now, and what blocks those that
// are beyond: they would only wait in the queue, or go beyond the breaker, or follow a create
// that failed before it has shown whether the cause is gone.
func (l *Launcher) Room(group fleet.GroupID, now time.Time) (room int, beyond fleet.Block) {
	room, beyond = l.queue.room(group), fleet.Block{By: fleet.BlockerQueue, Why: "the creates before it go first"}
	bound := l.tries(group)
	breaker := l.breakers.of(group)
	if left, bounded := breaker.Left(bound, now); bounded && left < room {
		room = left
		beyond = fleet.Block{
			By:  fleet.BlockerCrashLoop,
			Why: breaker.Explain(fmt.Sprintf("its machines do not register, or end soon after; at most %d new ones are tried within an hour", bound)),
		}
	}
	by, probing := l.backoffs.probing(group)
	if left := 1 - l.pending(group); probing && left < room {
		room = left
		beyond = fleet.Block{By: by, Why: "one create is tried before the others, for the last ones failed"}
	}
	return room, beyond
}

// pending is how many managed instances of a group have a record and no VM yet.
func (l *Launcher) pending(group fleet.GroupID) int {
	n := 0
	for _, in := range l.opts.Cache.Fleet(group) {
		if in.State == fleet.Pending && !in.OnDemand {
			n++
		}
	}
	return n
}

// Throttled is the provider's wish that the group's creates be sent less often, for as long as
// it counts; the zero Block: there is none.
func (l *Launcher) Throttled(group fleet.GroupID, now time.Time) fleet.Block {
	return l.backoffs.throttle(group, now)
}

// FailedLaunch is what was found of the last failed launch of a group; it is
// empty once a machine has lasted.
func (l *Launcher) FailedLaunch(group fleet.GroupID) string { return l.breakers.of(group).Why() }
