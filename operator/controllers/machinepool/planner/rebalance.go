package planner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// How long a move may take until the new machine's Node is ready, when the next one is
// tried after it was not, and how far apart moves are under Always.
const (
	MoveTimeout = 15 * time.Minute
	MoveRetry   = 30 * time.Minute
	MovePace    = 5 * time.Minute
)

// Policy says when instances move between shards without anybody asking for a size.
type Policy string

// The policies. The empty one is Always.
const (
	Always        Policy = "Always"        // whenever the sizes are not the equal split, slowly
	OnShardChange Policy = "OnShardChange" // only after the set of shards changed
	Never         Policy = "Never"
)

// Balance is the input of Rebalance.
type Balance struct {
	Pool
	Policy Policy
	// Ready is the number of ready Nodes of each shard, in the order of Shards, without
	// those whose instances are being deleted.
	Ready []int
	// Since is when the open move was opened; zero without one.
	Since time.Time
	// BalancedFor is the value that an earlier answer gave to remember, empty at first.
	BalancedFor string
	// NotBefore is when the next move may be opened, as an earlier answer gave it.
	NotBefore time.Time
	// Busy says why nothing may be moved now, in words: the pool is paused, a victim
	// is still being deleted. Empty: nothing forbids it.
	Busy string
}

// MoveKind is what is to be done about a move.
type MoveKind string

// The kinds of a Move.
const (
	// Rest: nothing is to be done.
	Rest MoveKind = ""
	// Blocked: the split is uneven, and Reason says what forbids a move.
	Blocked MoveKind = "blocked"
	// Delay: the split is uneven, and a move may be opened at NotBefore.
	Delay MoveKind = "delay"
	// Open: give Shard one more, and annotate it as surging, in one write.
	Open MoveKind = "open"
	// Wait: a move is open, and its machine is not ready yet.
	Wait MoveKind = "wait"
	// Close: remove the annotation. The next plan takes the surplus from another shard.
	Close MoveKind = "close"
	// Abandon: remove the annotation and one instance from Shard, in one write.
	Abandon MoveKind = "abandon"
)

// Move is the next step of rebalancing.
type Move struct {
	Kind  MoveKind
	Shard string // empty for Rest, Blocked and Delay
	// BalancedFor is to be stored with the pool and given again.
	BalancedFor string
	// NotBefore is to be stored with the pool and given again.
	NotBefore time.Time
	// RequeueAt is when time alone may change the answer; zero: never.
	RequeueAt time.Time
	// Reason says why, to people; empty if there is nothing to say.
	Reason string
}

// Rebalance says what to do next to bring the sizes nearer to the equal split without
// ever having fewer ready Nodes than before: one more in the shard that lacks most, wait
// until it is ready, one less where most is too much.
//
// A move is opened only when the pool has its size, every shard is fully known, and nothing
// else goes on. A shard whose provider has no room is not moved to.
func Rebalance(b Balance, now time.Time) Move {
	m := Move{BalancedFor: b.BalancedFor, NotBefore: b.NotBefore}
	set := setHash(b.Shards)
	want := EqualSplit(b.Replicas, len(b.Shards))
	even := true
	for i, s := range b.Shards {
		even = even && s.Size == want[i]
	}
	if b.BalancedFor == "" || even {
		m.BalancedFor = set
	}
	for i, s := range b.Shards {
		if s.Surge {
			return b.open(m, i, now)
		}
	}
	if even {
		return m
	}
	if !b.armed(set) {
		m.Reason = fmt.Sprintf("the sizes are not the equal split, and rebalance policy %s moves nothing now", b.policy())
		return m
	}
	return b.begin(m, want, now)
}

// open carries an open move on.
func (b Balance) open(m Move, i int, now time.Time) Move {
	s := b.Shards[i]
	m.Kind, m.Shard = Wait, s.Name
	giveUp := b.Since.Add(MoveTimeout)
	ready := 0
	if i < len(b.Ready) {
		ready = b.Ready[i]
	}
	switch {
	case ready >= s.Size:
		m.Kind, m.NotBefore = Close, time.Time{}
		if b.policy() == Always {
			m.NotBefore = b.Since.Add(MovePace)
		}
		m.Reason = fmt.Sprintf("%s has %d ready nodes of %d", s.Name, ready, s.Size)
	case now.Before(giveUp):
		m.RequeueAt = giveUp
		m.Reason = fmt.Sprintf("%s has %d ready nodes of %d", s.Name, ready, s.Size)
	case s.onlyRequested():
		m.Reason = s.Name + " has one instance too many until it is reachable and its instances are known"
	default:
		m.Kind, m.NotBefore = Abandon, now.Add(MoveRetry)
		m.Reason = fmt.Sprintf("%s has %d ready nodes of %d after %v", s.Name, ready, s.Size, MoveTimeout)
	}
	return m
}

// begin opens a move, or says what forbids it.
func (b Balance) begin(m Move, want []int, now time.Time) Move {
	total, to := 0, -1
	var refuses, incomplete []string
	for i, s := range b.Shards {
		total += s.Size
		switch {
		case s.onlyRequested():
			incomplete = append(incomplete, s.Name)
		case s.Size >= want[i]:
		case s.Refusal != "":
			refuses = append(refuses, s.Name+": "+s.Refusal)
		case to < 0 || want[i]-s.Size > want[to]-b.Shards[to].Size:
			to = i
		}
	}
	switch {
	case total != max(b.Replicas, 0): // the plan comes first
	case b.Busy != "":
		m.Kind, m.Reason = Blocked, "uneven split; rebalancing is blocked: "+b.Busy
	case len(incomplete) > 0:
		m.Kind, m.Reason = Blocked, "uneven split; rebalancing is blocked until each shard is reachable and its instances are known: "+strings.Join(incomplete, ", ")
	case to < 0:
		m.Kind, m.Reason = Blocked, "uneven split; rebalancing is blocked: "+strings.Join(refuses, ", ")
	case now.Before(b.NotBefore):
		m.Kind, m.RequeueAt = Delay, b.NotBefore
		m.Reason = "uneven split; the next instance moves at " + b.NotBefore.UTC().Format(time.RFC3339)
	default:
		s := b.Shards[to]
		m.Kind, m.Shard, m.NotBefore = Open, s.Name, time.Time{}
		m.Reason = fmt.Sprintf("rebalancing %s: adding one on %s (%d→%d, target %d), then removing one elsewhere", b.Name, s.Name, s.Size, s.Size+1, want[to])
	}
	return m
}

func (b Balance) policy() Policy {
	if b.Policy == "" {
		return Always
	}
	return b.Policy
}

// armed reports whether uneven sizes are a reason to move.
func (b Balance) armed(set string) bool {
	switch b.policy() {
	case Always:
		return true
	case OnShardChange:
		return b.BalancedFor != "" && b.BalancedFor != set
	default:
		return false
	}
}

// setHash names a set of shards: the same for every order, short enough for a label.
func setHash(shards []Shard) string {
	names := make([]string, len(shards))
	for i, s := range shards {
		names[i] = s.Name
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(strings.Join(names, "\n")))
	return hex.EncodeToString(sum[:4])
}
