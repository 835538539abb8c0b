package planner

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

func TestRebalance(t *testing.T) {
	ab := setHash(shards("a=0 b=0"))
	for _, tt := range []struct {
		name     string
		shards   string
		replicas int
		balance  Balance
		now      time.Duration
		want     Move
	}{
		{name: "even", shards: "a=3 b=2", replicas: 5, want: Move{BalancedFor: ab}},
		{
			name: "uneven", shards: "a=4 b=1", replicas: 5,
			want: Move{Kind: Open, Shard: "b", BalancedFor: ab, Reason: "rebalancing p: adding one on b (1→2, target 2), then removing one elsewhere"},
		},
		{name: "uneven, and it may stay so", shards: "a=4 b=1", replicas: 5, balance: Balance{Policy: Never}, want: Move{BalancedFor: ab, Reason: uneven("Never")}},
		{
			name: "uneven since the beginning", shards: "a=4 b=1", replicas: 5, balance: Balance{Policy: OnShardChange},
			want: Move{BalancedFor: ab, Reason: uneven("OnShardChange")},
		},
		{
			name: "uneven, and other shards than before", shards: "a=4 b=1", replicas: 5,
			balance: Balance{Policy: OnShardChange, BalancedFor: "other"},
			want:    Move{Kind: Open, Shard: "b", BalancedFor: "other", Reason: "rebalancing p: adding one on b (1→2, target 2), then removing one elsewhere"},
		},
		{
			name: "even, and other shards than before: done", shards: "a=3 b=2", replicas: 5,
			balance: Balance{Policy: OnShardChange, BalancedFor: "other"}, want: Move{BalancedFor: ab},
		},
		{
			name: "the same shards in another order", shards: "b=2 a=3", replicas: 5,
			balance: Balance{Policy: OnShardChange, BalancedFor: ab}, want: Move{BalancedFor: ab, Reason: uneven("OnShardChange")},
		},
		{name: "the pool has not its size yet: the plan comes first", shards: "a=4 b=1", replicas: 6, want: Move{BalancedFor: ab}},
		{
			name: "a shard is incomplete", shards: "a=4? b=1", replicas: 5,
			want: Move{Kind: Blocked, BalancedFor: ab, Reason: "uneven split; rebalancing is blocked until each shard is reachable and its instances are known: a"},
		},
		{
			name: "a shard is unreachable", shards: "a=4 b=1!", replicas: 5,
			want: Move{Kind: Blocked, BalancedFor: ab, Reason: "uneven split; rebalancing is blocked until each shard is reachable and its instances are known: b"},
		},
		{
			name: "no room where it lacks", shards: "a=4 b=1-", replicas: 5,
			want: Move{Kind: Blocked, BalancedFor: ab, Reason: "uneven split; rebalancing is blocked: b: out of capacity"},
		},
		{
			name: "something else goes on", shards: "a=4 b=1", replicas: 5, balance: Balance{Busy: "i1 is still being deleted"},
			want: Move{Kind: Blocked, BalancedFor: ab, Reason: "uneven split; rebalancing is blocked: i1 is still being deleted"},
		},
		{
			name: "too early", shards: "a=4 b=1", replicas: 5, balance: Balance{NotBefore: at(time.Minute)},
			want: Move{
				Kind: Delay, BalancedFor: ab, NotBefore: at(time.Minute), RequeueAt: at(time.Minute),
				Reason: "uneven split; the next instance moves at 2026-01-02T03:05:05Z",
			},
		},
		{
			name: "late enough", shards: "a=4 b=1", replicas: 5, balance: Balance{NotBefore: at(time.Minute)}, now: time.Minute,
			want: Move{Kind: Open, Shard: "b", BalancedFor: ab, Reason: "rebalancing p: adding one on b (1→2, target 2), then removing one elsewhere"},
		},
		{
			name: "open, not ready", shards: "a=4 b=2+", replicas: 5, now: MoveTimeout - 1,
			balance: Balance{Ready: []int{4, 1}, Since: start},
			want:    Move{Kind: Wait, Shard: "b", BalancedFor: ab, RequeueAt: at(MoveTimeout), Reason: "b has 1 ready nodes of 2"},
		},
		{
			name: "open, ready", shards: "a=4 b=2+", replicas: 5, now: time.Minute,
			balance: Balance{Ready: []int{4, 2}, Since: start},
			want:    Move{Kind: Close, Shard: "b", BalancedFor: ab, NotBefore: at(MovePace), Reason: "b has 2 ready nodes of 2"},
		},
		{
			name: "open, ready, after a change of shards: at once the next", shards: "a=4 b=2+", replicas: 5, now: time.Minute,
			balance: Balance{Policy: OnShardChange, BalancedFor: "x", Ready: []int{4, 2}, Since: start},
			want:    Move{Kind: Close, Shard: "b", BalancedFor: "x", Reason: "b has 2 ready nodes of 2"},
		},
		{
			name: "open, never ready", shards: "a=4 b=2+", replicas: 5, now: MoveTimeout,
			balance: Balance{Ready: []int{4, 1}, Since: start},
			want: Move{
				Kind: Abandon, Shard: "b", BalancedFor: ab, NotBefore: at(MoveTimeout + MoveRetry), Reason: "b has 1 ready nodes of 2 after 15m0s",
			},
		},
		{
			name: "open, never ready, and out of sight", shards: "a=4 b=2+!", replicas: 5, now: time.Hour,
			balance: Balance{Ready: []int{4, 1}, Since: start},
			want:    Move{Kind: Wait, Shard: "b", BalancedFor: ab, Reason: "b has one instance too many until it is reachable and its instances are known"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.balance
			b.Pool = Pool{Name: "p", Replicas: tt.replicas, Shards: shards(tt.shards)}
			if diff := cmp.Diff(tt.want, Rebalance(b, at(tt.now))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// world is a pool whose machines become ready, or leave, at once.
type world struct {
	Balance
	now time.Time
	log []string
}

func (w *world) sizes() []int {
	var all []int
	for _, s := range w.Shards {
		all = append(all, s.Size)
	}
	return all
}

// settle moves instances until nothing is left to do, and returns the sizes on the way.
// At every step as many Nodes are ready as the pool wants.
func (w *world) settle(fatalf func(string, ...any)) {
	for range 1000 {
		r := Plan(w.Pool)
		for i, c := range r.Changes {
			w.Shards[i].Size = c.To
			w.Shards[i].Surge = w.Shards[i].Surge && !r.EndSurge
		}
		if r.Reason != "" {
			w.log = append(w.log, fmt.Sprint(w.sizes()))
		}
		w.Ready = w.sizes()
		ready := 0
		for _, n := range w.Ready {
			ready += n
		}
		if ready < w.Replicas {
			fatalf("%d ready of %d: %v", ready, w.Replicas, w.log)
		}
		m := Rebalance(w.Balance, w.now)
		w.BalancedFor, w.NotBefore = m.BalancedFor, m.NotBefore
		i := slices.IndexFunc(w.Shards, func(s Shard) bool { return s.Name == m.Shard })
		switch m.Kind {
		case Open:
			w.Since = w.now
			w.Shards[i].Size++
			w.Shards[i].Surge = true
			w.log = append(w.log, fmt.Sprint(w.sizes()))
		case Close:
			w.Shards[i].Surge = false
		case Rest, Blocked, Delay:
			if m.RequeueAt.IsZero() {
				return
			}
			w.now = m.RequeueAt
		default:
			fatalf("a ready world had to %s: %s", m.Kind, m.Reason)
		}
	}
	fatalf("never settles: %v", w.log)
}

func TestO4_MovesAreReadyFirst(t *testing.T) {
	for _, tt := range []struct {
		name, shards string
		replicas     int
		want         []string
	}{
		{"uneven import", "a=4 b=1", 5, []string{"[4 2]", "[3 2]"}},
		{"the order was edited", "b=2 a=3", 5, []string{"[3 3]", "[3 2]"}},
		{"a shard was added", "a=3 b=3 c=0", 6, []string{"[3 3 1]", "[3 2 1]", "[3 2 2]", "[2 2 2]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := world{Balance: Balance{Pool: Pool{Name: "p", Replicas: tt.replicas, Shards: shards(tt.shards)}}, now: start}
			w.settle(t.Fatalf)
			if diff := cmp.Diff(tt.want, w.log); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// However uneven a pool is, by default it ends in the equal split, and never has fewer
// ready Nodes than it wants on the way.
func TestO4_EveryHistoryEndsInTheEqualSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{now: start}
		for i := range rapid.IntRange(1, 5).Draw(t, "shards") {
			w.Shards = append(w.Shards, Shard{Name: string(rune('a' + i)), Size: rapid.IntRange(0, 7).Draw(t, "size")})
			w.Replicas += w.Shards[i].Size
		}
		w.settle(t.Fatalf)
		if got, want := w.sizes(), EqualSplit(w.Replicas, len(w.Shards)); !slices.Equal(got, want) {
			t.Fatalf("settles at %v, want %v", got, want)
		}
	})
}

// uneven is what is said of uneven sizes that a policy leaves as they are.
func uneven(policy string) string {
	return "the sizes are not the equal split, and rebalance policy " + policy + " moves nothing now"
}
