package planner

import (
	"fmt"
	"time"
)

// RetireTimeout is how long a shard that left a pool keeps its instances at most, while the
// other shards make theirs.
const RetireTimeout = 15 * time.Minute

// RetireKind is what is to be done about a shard that a pool may have stopped listing.
type RetireKind string

// The kinds of a Retirement.
const (
	// Stay: the shard is listed, and nothing is to be done.
	Stay RetireKind = ""
	// Begin: write down that it is removed at Until at the latest.
	Begin RetireKind = "begin"
	// Keep: it will be removed, and keeps its instances until then.
	Keep RetireKind = "keep"
	// Remove: remove it from the pool, and so its instances.
	Remove RetireKind = "remove"
	// Cancel: it is listed again; forget that it was to be removed.
	Cancel RetireKind = "cancel"
)

// RetireInput is the input of Retire: a shard that has a size in the pool.
type RetireInput struct {
	Shard string
	// Listed: the pool lists the shard.
	Listed bool
	// Until is when it is removed at the latest; zero if that was not yet written down.
	Until time.Time
	// Others are the shards that the pool does list: how many Nodes they are to have,
	// all together, and how many are ready.
	OthersWant, OthersReady int
}

// Retirement is the answer of Retire.
type Retirement struct {
	Kind RetireKind
	// Until is when the shard is removed at the latest; for Begin and Keep.
	Until time.Time
	// Reason says why, to people; empty for Stay.
	Reason string
}

// Retire says what becomes of a shard that was taken off a pool's list: its instances
// stay until the other shards have all the ready Nodes that the pool wants, or until
// RetireTimeout has passed.
func Retire(l RetireInput, now time.Time) Retirement {
	ready := fmt.Sprintf("the other shards have %d ready nodes of %d", l.OthersReady, l.OthersWant)
	switch {
	case l.Listed && l.Until.IsZero():
		return Retirement{}
	case l.Listed:
		return Retirement{Kind: Cancel, Reason: l.Shard + " is listed again"}
	case l.Until.IsZero():
		return Retirement{Kind: Begin, Until: now.Add(RetireTimeout), Reason: l.Shard + " is no longer listed"}
	case l.OthersReady >= l.OthersWant:
		return Retirement{Kind: Remove, Reason: fmt.Sprintf("%s is removed: %s", l.Shard, ready)}
	case !now.Before(l.Until):
		return Retirement{Kind: Remove, Reason: fmt.Sprintf("%s is removed after %v: %s", l.Shard, RetireTimeout, ready)}
	default:
		return Retirement{Kind: Keep, Until: l.Until, Reason: fmt.Sprintf("%s keeps its instances: %s", l.Shard, ready)}
	}
}
