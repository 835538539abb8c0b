package planner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// shards reads sizes such as "a=3 b=2!": a name, a size, and how the shard is.
//
//	! unreachable   ? incomplete   - refuses growth   + surges
func shards(text string) []Shard {
	var all []Shard
	for _, field := range strings.Fields(text) {
		name, rest, _ := strings.Cut(field, "=")
		digits := strings.TrimRight(rest, "!?-+")
		size, err := strconv.Atoi(digits)
		if err != nil {
			panic(err)
		}
		flags := rest[len(digits):]
		all = append(all, Shard{
			Name: name, Size: size,
			RedirectGrowth: strings.Contains(flags, "!"), Incomplete: strings.Contains(flags, "?"),
			Surge: strings.Contains(flags, "+"),
		})
		if strings.Contains(flags, "-") {
			all[len(all)-1].Refusal = "out of capacity"
		}
	}
	return all
}

// marks reads marked instances, the oldest first: "b1 a1" are b1 in shard b and a1 in a.
func marks(text string) []DeletionRequest {
	var all []DeletionRequest
	for _, id := range strings.Fields(text) {
		all = append(all, DeletionRequest{Instance: id, Shard: id[:1]})
	}
	return all
}

// The cases of the specification of the split, one after another.
func TestO4_Plan(t *testing.T) {
	for _, tt := range []struct {
		name     string
		shards   string
		replicas int
		marks    string
		want     Result
	}{
		{
			name: "new pool", shards: "a=0 b=0 c=0", replicas: 10,
			want: Result{
				Changes: []Change{{Shard: "a", To: 4}, {Shard: "b", To: 3}, {Shard: "c", To: 3}},
				Reason:  "p 0→10: a 0→4, b 0→3, c 0→3",
			},
		},
		{
			name: "new pool that is smaller than its shards are many", shards: "a=0 b=0 c=0", replicas: 2,
			want: Result{
				Changes: []Change{{Shard: "a", To: 1}, {Shard: "b", To: 1}, {Shard: "c"}},
				Reason:  "p 0→2: a 0→1, b 0→1",
			},
		},
		{
			name: "up", shards: "a=3 b=2", replicas: 6,
			want: Result{
				Changes: []Change{{Shard: "a", From: 3, To: 3}, {Shard: "b", From: 2, To: 3}},
				Reason:  "p 5→6: b 2→3",
			},
		},
		{
			name: "down, nobody named: the first has the surplus", shards: "a=3 b=2", replicas: 4,
			want: Result{
				Changes: []Change{{Shard: "a", From: 3, To: 2, Pick: 1}, {Shard: "b", From: 2, To: 2}},
				Reason:  "p 5→4: a 3→2",
			},
		},
		{
			name: "down by two: the last first", shards: "a=3 b=3", replicas: 4,
			want: Result{
				Changes: []Change{{Shard: "a", From: 3, To: 2, Pick: 1}, {Shard: "b", From: 3, To: 2, Pick: 1}},
				Reason:  "p 6→4: a 3→2, b 3→2",
			},
		},
		{
			name: "the autoscaler names a node in b", shards: "a=3 b=2", replicas: 4, marks: "b1",
			want: Result{
				Changes: []Change{{Shard: "a", From: 3, To: 3}, {Shard: "b", From: 2, To: 1, Requested: []string{"b1"}}},
				Reason:  "p 5→4: b 2→1 (named: b1)",
			},
		},
		{
			name: "the autoscaler named a node in b, later up", shards: "a=3 b=1", replicas: 5,
			want: Result{
				Changes: []Change{{Shard: "a", From: 3, To: 3}, {Shard: "b", From: 1, To: 2}},
				Reason:  "p 4→5: b 1→2",
			},
		},
		{
			name: "marks outnumber: the older goes, the other stays marked", shards: "a=3 b=3", replicas: 5, marks: "b1 a1",
			want: Result{
				Changes: []Change{{Shard: "a", From: 3, To: 3}, {Shard: "b", From: 3, To: 2, Requested: []string{"b1"}}},
				Reason:  "p 6→5: b 3→2 (named: b1)",
			},
		},
		{
			name: "to zero", shards: "a=2 b=2 c=1", replicas: 0,
			want: Result{
				Changes: []Change{
					{Shard: "a", From: 2, Pick: 2}, {Shard: "b", From: 2, Pick: 2}, {Shard: "c", From: 1, Pick: 1},
				},
				Reason: "p 5→0: a 2→0, b 2→0, c 1→0",
			},
		},
		{
			name: "b is unreachable and growth is redirected", shards: "a=2 b=2!", replicas: 6,
			want: Result{
				Changes:    []Change{{Shard: "a", From: 2, To: 4}, {Shard: "b", From: 2, To: 2}},
				Redirected: []string{"b"},
				Reason:     "p 4→6: a 2→4; b is skipped: unreachable",
			},
		},
		{
			name: "b has returned: nothing changes", shards: "a=4 b=2", replicas: 6,
			want: Result{Changes: []Change{{Shard: "a", From: 4, To: 4}, {Shard: "b", From: 2, To: 2}}},
		},
		{
			name: "b has returned: growth makes it even", shards: "a=4 b=2", replicas: 7,
			want: Result{
				Changes: []Change{{Shard: "a", From: 4, To: 4}, {Shard: "b", From: 2, To: 3}},
				Reason:  "p 6→7: b 2→3",
			},
		},
		{
			name: "b is unreachable and growth is held", shards: "a=2 b=2?", replicas: 6,
			want: Result{
				Changes: []Change{{Shard: "a", From: 2, To: 3}, {Shard: "b", From: 2, To: 3}},
				Reason:  "p 4→6: a 2→3, b 2→3",
			},
		},
		{
			name: "b is unreachable, down: a does not go below its part", shards: "a=2 b=2!", replicas: 2,
			want: Result{
				Changes: []Change{{Shard: "a", From: 2, To: 1, Pick: 1}, {Shard: "b", From: 2, To: 2}},
				Blocked: 1,
				Reason:  "p 4→3: a 2→1; scale-down by 1 waits until b is reachable and its instances are known",
			},
		},
		{
			name: "b is back, and what waited goes", shards: "a=1 b=2", replicas: 2,
			want: Result{
				Changes: []Change{{Shard: "a", From: 1, To: 1}, {Shard: "b", From: 2, To: 1, Pick: 1}},
				Reason:  "p 3→2: b 2→1",
			},
		},
		{
			name: "b is unreachable, and a machine in it is named", shards: "a=2 b=2!", replicas: 3, marks: "b1",
			want: Result{
				Changes: []Change{{Shard: "a", From: 2, To: 2}, {Shard: "b", From: 2, To: 1, Requested: []string{"b1"}}},
				Reason:  "p 4→3: b 2→1 (named: b1)",
			},
		},
		{
			name: "all are unreachable: growth is pushed on return", shards: "a=2! b=2!", replicas: 6,
			want: Result{
				Changes: []Change{{Shard: "a", From: 2, To: 3}, {Shard: "b", From: 2, To: 3}},
				Reason:  "p 4→6: a 2→3, b 2→3",
			},
		},
		{
			name: "uneven import: nothing moves at once", shards: "a=4 b=1", replicas: 5,
			want: Result{Changes: []Change{{Shard: "a", From: 4, To: 4}, {Shard: "b", From: 1, To: 1}}},
		},
		{
			name: "the order of the list was edited: nothing moves at once", shards: "b=2 a=3", replicas: 5,
			want: Result{Changes: []Change{{Shard: "b", From: 2, To: 2}, {Shard: "a", From: 3, To: 3}}},
		},
		{
			name: "a shard was added: nothing moves at once", shards: "a=3 b=3 c=0", replicas: 6,
			want: Result{Changes: []Change{{Shard: "a", From: 3, To: 3}, {Shard: "b", From: 3, To: 3}, {Shard: "c"}}},
		},
		{
			name: "a shard was taken off: the others grow at once", shards: "a=2 b=2", replicas: 6,
			want: Result{
				Changes: []Change{{Shard: "a", From: 2, To: 3}, {Shard: "b", From: 2, To: 3}},
				Reason:  "p 4→6: a 2→3, b 2→3",
			},
		},
		{
			name: "no room in b", shards: "a=2 b=2-", replicas: 6,
			want: Result{
				Changes:    []Change{{Shard: "a", From: 2, To: 4}, {Shard: "b", From: 2, To: 2}},
				Redirected: []string{"b"},
				Reason:     "p 4→6: a 2→4; b is skipped: out of capacity",
			},
		},
		{
			name: "no room in b, and a is unreachable: rather none than an unseen one", shards: "a=2! b=2-", replicas: 5,
			want: Result{
				Changes:    []Change{{Shard: "a", From: 2, To: 2}, {Shard: "b", From: 2, To: 3}},
				Redirected: []string{"a"},
				Reason:     "p 4→5: b 2→3; a is skipped: unreachable",
			},
		},
		{
			name: "growth of an uneven pool: of two that lack the same the first", shards: "a=4 b=1 c=1", replicas: 7,
			want: Result{
				Changes: []Change{{Shard: "a", From: 4, To: 4}, {Shard: "b", From: 1, To: 2}, {Shard: "c", From: 1, To: 1}},
				Reason:  "p 6→7: b 1→2",
			},
		},
		{
			name: "a mark in a shard that has nothing to give", shards: "a=3 b=0", replicas: 2, marks: "b1",
			want: Result{
				Changes: []Change{{Shard: "a", From: 3, To: 2, Pick: 1}, {Shard: "b"}},
				Reason:  "p 3→2: a 3→2",
			},
		},
		{
			name: "a mark in a shard that is not listed", shards: "a=3 b=2", replicas: 4, marks: "z1",
			want: Result{
				Changes: []Change{{Shard: "a", From: 3, To: 2, Pick: 1}, {Shard: "b", From: 2, To: 2}},
				Reason:  "p 5→4: a 3→2",
			},
		},
		{
			name: "marks without a smaller size mean nothing", shards: "a=3 b=2", replicas: 5, marks: "a1 b1",
			want: Result{Changes: []Change{{Shard: "a", From: 3, To: 3}, {Shard: "b", From: 2, To: 2}}},
		},
		{
			name: "an open move's instance is not too many", shards: "a=3 b=3 c=1+", replicas: 6,
			want: Result{
				Changes: []Change{{Shard: "a", From: 3, To: 3}, {Shard: "b", From: 3, To: 3}, {Shard: "c", From: 1, To: 1}},
			},
		},
		{
			name: "another size ends an open move", shards: "a=3 b=3 c=1+", replicas: 5,
			want: Result{
				Changes: []Change{
					{Shard: "a", From: 3, To: 2, Pick: 1}, {Shard: "b", From: 3, To: 2, Pick: 1}, {Shard: "c", From: 1, To: 1},
				},
				EndSurge: true,
				Reason:   "p 7→5: a 3→2, b 3→2",
			},
		},
		{
			name: "a greater size by one ends it, and all is well", shards: "a=3 b=3 c=1+", replicas: 7,
			want: Result{
				Changes:  []Change{{Shard: "a", From: 3, To: 3}, {Shard: "b", From: 3, To: 3}, {Shard: "c", From: 1, To: 1}},
				EndSurge: true,
			},
		},
		{
			name: "more than the shards may have", shards: "a=9999 b=10000", replicas: 2_000_000_000,
			want: Result{
				Changes:  []Change{{Shard: "a", From: 9999, To: 10000}, {Shard: "b", From: 10000, To: 10000}},
				Unplaced: 1_999_980_000,
				Reason:   "p 19999→20000: a 9999→10000; 1999980000 more have no place: a shard has at most 10000",
			},
		},
		{
			name: "a full shard passes growth on", shards: "a=10000 b=0!", replicas: 10_001,
			want: Result{
				Changes: []Change{{Shard: "a", From: 10000, To: 10000}, {Shard: "b", To: 1}},
				Reason:  "p 10000→10001: b 0→1",
			},
		},
		{name: "no shard", replicas: 3},
		{
			name: "negative numbers are none", shards: "a=-3 b=1", replicas: -1,
			want: Result{
				Changes: []Change{{Shard: "a"}, {Shard: "b", From: 1, Pick: 1}},
				Reason:  "p 1→0: b 1→0",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Plan(Pool{Name: "p", Replicas: tt.replicas, Shards: shards(tt.shards), Requests: marks(tt.marks)})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWritesGrowFirst(t *testing.T) {
	r := Result{Changes: []Change{
		{Shard: "a", From: 2, To: 1, Pick: 1}, {Shard: "b", From: 2, To: 2}, {Shard: "c", From: 0, To: 2}, {Shard: "d", From: 1, To: 0, Pick: 1},
		{Shard: "e", From: 1, To: 2},
	}}
	want := []Change{
		{Shard: "c", From: 0, To: 2}, {Shard: "e", From: 1, To: 2}, {Shard: "a", From: 2, To: 1, Pick: 1}, {Shard: "d", From: 1, To: 0, Pick: 1},
	}
	if diff := cmp.Diff(want, r.Writes()); diff != "" {
		t.Error(diff)
	}
}

func sizes(r Result) []int {
	var all []int
	for _, c := range r.Changes {
		all = append(all, c.To)
	}
	return all
}

// An undisturbed pool always has the equal split, by whatever way it came to its size.
func TestO4_UndisturbedIsTheEqualSplit(t *testing.T) {
	check := func(before, replicas, n int) {
		p := Pool{Replicas: replicas, Shards: make([]Shard, n)}
		for i, size := range EqualSplit(before, n) {
			p.Shards[i] = Shard{Name: strconv.Itoa(i), Size: size}
		}
		if got, want := sizes(Plan(p)), EqualSplit(replicas, n); !slices.Equal(got, want) {
			t.Fatalf("from %d to %d in %d shards: %v, want %v", before, replicas, n, got, want)
		}
	}
	for n := 1; n <= 6; n++ {
		for before := range 30 {
			for replicas := range 30 {
				check(before, replicas, n)
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		before := rng.IntN(200)
		check(before, max(0, before+rng.IntN(17)-8), 1+rng.IntN(8))
	}
	check(0, 10_000, 64)
	check(10_000, 0, 64)
}

// pools draws pools in every condition.
func pools(t *rapid.T) Pool {
	p := Pool{Name: "p", Replicas: rapid.IntRange(0, 30).Draw(t, "replicas")}
	surge := rapid.IntRange(-3, 5).Draw(t, "surge")
	for i := range rapid.IntRange(1, 6).Draw(t, "shards") {
		s := Shard{Name: string(rune('a' + i)), Size: rapid.IntRange(0, 8).Draw(t, "size"), Surge: i == surge}
		how := rapid.SampledFrom([]string{"", "", "", "unreachable", "incomplete", "refuses", "unreachable refuses"}).Draw(t, "how")
		s.RedirectGrowth, s.Incomplete = strings.Contains(how, "unreachable"), strings.Contains(how, "incomplete")
		if strings.Contains(how, "refuses") {
			s.Refusal = "quota exceeded"
		}
		p.Shards = append(p.Shards, s)
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "marks") {
		shard := string(rune('a' + rapid.IntRange(0, 6).Draw(t, "marked"))) // maybe one that is not listed
		p.Requests = append(p.Requests, DeletionRequest{Instance: fmt.Sprintf("%s%d", shard, i), Shard: shard})
	}
	return p
}

func TestO4_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pools(t)
		before := Pool{p.Name, p.Replicas, slices.Clone(p.Shards), slices.Clone(p.Requests)}
		r := Plan(p)
		if diff := cmp.Diff(r, Plan(before)); diff != "" {
			t.Fatalf("equal pools, other plans: %s", diff)
		}
		if diff := cmp.Diff(before, p); diff != "" {
			t.Fatalf("the plan changed its input: %s", diff)
		}
		checkSum(t, p, r)
		checkChanges(t, p, r)
	})
}

// checkSum: the sizes are the pool's unless the plan says that they are not.
func checkSum(t *rapid.T, p Pool, r Result) {
	sum, surge, unknown := 0, 0, false
	for i, c := range r.Changes {
		sum += c.To
		if p.Shards[i].Surge && !r.EndSurge {
			surge = 1
		}
		unknown = unknown || p.Shards[i].RedirectGrowth || p.Shards[i].Incomplete
	}
	if sum != p.Replicas+surge+r.Blocked {
		t.Fatalf("%d instances for %d replicas, %d of a move, %d blocked", sum, p.Replicas, surge, r.Blocked)
	}
	if r.Blocked < 0 || r.Blocked > 0 && !unknown {
		t.Fatalf("%d blocked, and every shard is known: %t", r.Blocked, !unknown)
	}
}

// checkChanges: what goes was named or may be chosen, and nothing moves in vain.
func checkChanges(t *rapid.T, p Pool, r Result) {
	var named []string
	grows, shrinks := false, false
	for i, c := range r.Changes {
		s := p.Shards[i]
		if c.Shard != s.Name || c.From != s.Size || c.To < 0 {
			t.Fatalf("shard %+v became %+v", s, c)
		}
		grows, shrinks = grows || c.To > c.From, shrinks || c.To < c.From
		if gone := max(0, c.From-c.To); gone != len(c.Requested)+c.Pick {
			t.Fatalf("%d go from %s, of them %v named and %d picked", gone, c.Shard, c.Requested, c.Pick)
		}
		if c.Pick > 0 && (s.RedirectGrowth || s.Incomplete) {
			t.Fatalf("an instance of %s is picked, which is not fully known", c.Shard)
		}
		named = append(named, c.Requested...)
		for _, id := range c.Requested {
			if !slices.Contains(p.Requests, DeletionRequest{Instance: id, Shard: c.Shard}) {
				t.Fatalf("%s in %s was not marked", id, c.Shard)
			}
		}
	}
	if grows && shrinks {
		t.Fatal("one shard grows while another shrinks")
	}
	if grows && len(named) > 0 {
		t.Fatal("a pool that grows loses marked instances")
	}
	if moved := grows || shrinks; (moved || r.Blocked > 0) != (r.Reason != "") {
		t.Fatalf("reason %q of a plan that moves: %t", r.Reason, moved)
	}
}
