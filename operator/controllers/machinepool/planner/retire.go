package planner

import (
	"fmt"
	"time"
)

// RetireHold is how long a shard that left a pool keeps its instances at most, while the
// other shards make theirs.
const RetireHold = 15 * time.Minute

// RetireKind is what is to be done about a shard of a pool with regard to leaving it.
type RetireKind string

// The kinds of a Retirement.
const (
	// Stay: the shard is listed, and nothing is to be done.
	Stay RetireKind = ""
	// Begin: write down that it leaves at Until at the latest.
	Begin RetireKind = "begin"
	// Hold: it leaves, and still keeps its instances.
	Hold RetireKind = "hold"
	// Leave: remove it from the pool, and so its instances.
	Leave RetireKind = "leave"
	// Return: it is listed again; forget that it was to leave.
	Return RetireKind = "return"
)

// Leaver is the input of Retire: a shard that has a size in the pool.
type Leaver struct {
	Shard string
	// Listed: the pool lists the shard.
	Listed bool
	// Until is when it leaves at the latest; zero if that was not yet written down.
	Until time.Time
	// Others are the shards that the pool does list: how many Nodes they are to have,
	// all together, and how many are ready.
	OthersWant, OthersReady int
}

// Retirement is what to do about a shard that may be leaving.
type Retirement struct {
	Kind RetireKind
	// Until is when the shard leaves at the latest; for Begin and Hold.
	Until time.Time
	// Reason says why, to people; empty for Stay.
	Reason string
}

// Retire says what becomes of a shard that was taken off a pool's list: its instances
// stay until the other shards have all the ready Nodes that the pool wants, or until
// RetireHold has passed.
func Retire(l Leaver, now time.Time) Retirement {
	ready := fmt.Sprintf("the other shards have %d ready nodes of %d", l.OthersReady, l.OthersWant)
	switch {
	case l.Listed && l.Until.IsZero():
		return Retirement{}
	case l.Listed:
		return Retirement{Kind: Return, Reason: l.Shard + " is listed again"}
	case l.Until.IsZero():
		return Retirement{Kind: Begin, Until: now.Add(RetireHold), Reason: l.Shard + " is no longer listed"}
	case l.OthersReady >= l.OthersWant:
		return Retirement{Kind: Leave, Reason: fmt.Sprintf("%s leaves: %s", l.Shard, ready)}
	case !now.Before(l.Until):
		return Retirement{Kind: Leave, Reason: fmt.Sprintf("%s leaves after %v: %s", l.Shard, RetireHold, ready)}
	default:
		return Retirement{Kind: Hold, Until: l.Until, Reason: fmt.Sprintf("%s stays: %s", l.Shard, ready)}
	}
}
