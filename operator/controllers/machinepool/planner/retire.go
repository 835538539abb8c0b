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
	// RetireNone: the shard is listed, and nothing is to be done.
	RetireNone RetireKind = ""
	// RetireBegin: write down that it is removed at Until at the latest.
	RetireBegin RetireKind = "begin"
	// RetireWait: it will be removed, and keeps its instances until then.
	RetireWait RetireKind = "keep"
	// RetireRemove: remove it from the pool, and so its instances.
	RetireRemove RetireKind = "remove"
	// RetireCancel: it is listed again; forget that it was to be removed.
	RetireCancel RetireKind = "cancel"
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
	// Until is when the shard is removed at the latest; for RetireBegin and RetireWait.
	Until time.Time
	// Reason says why, to people; empty for RetireNone.
	Reason string
}

// Retire says what becomes of a shard that was taken off a pool's list: its instances
// stay until the other shards have all the ready Nodes that the pool wants, or until
// RetireTimeout has passed.
func Retire(in RetireInput, now time.Time) Retirement {
	ready := fmt.Sprintf("the other shards have %d ready nodes of %d", in.OthersReady, in.OthersWant)
	switch {
	case in.Listed && in.Until.IsZero():
		return Retirement{}
	case in.Listed:
		return Retirement{Kind: RetireCancel, Reason: in.Shard + " is listed again"}
	case in.Until.IsZero():
		return Retirement{Kind: RetireBegin, Until: now.Add(RetireTimeout), Reason: in.Shard + " is no longer listed"}
	case in.OthersReady >= in.OthersWant:
		return Retirement{Kind: RetireRemove, Reason: fmt.Sprintf("%s is removed: %s", in.Shard, ready)}
	case !now.Before(in.Until):
		return Retirement{Kind: RetireRemove, Reason: fmt.Sprintf("%s is removed after %v: %s", in.Shard, RetireTimeout, ready)}
	default:
		return Retirement{Kind: RetireWait, Until: in.Until, Reason: fmt.Sprintf("%s keeps its instances: %s", in.Shard, ready)}
	}
}
