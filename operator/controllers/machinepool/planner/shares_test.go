package planner_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/operator/controllers/machinepool/planner"
)

const vcpu planner.Bound = "limits.vcpu"

func most(machines int64) map[planner.Bound]int64 {
	return map[planner.Bound]int64{planner.Machines: machines}
}

// says is a shard group that its server has accepted, whose machines are so many.
func says(shard string, b planner.Bounds, machines int64) planner.Holder {
	return planner.Holder{Shard: shard, Written: &b, InForce: []planner.Bounds{b}, Used: most(machines)}
}

func TestDivide(t *testing.T) {
	unlimited := planner.Bounds{}
	for name, c := range map[string]struct {
		total   planner.Bounds
		holders []planner.Holder
		want    []planner.Bounds
		waits   bool
		reason  string
	}{
		"a new pool gets equal parts, the first listed the rest": {
			total:   planner.Bounds{Min: 4, MinIdle: 1, Most: most(10)},
			holders: []planner.Holder{{Shard: "a"}, {Shard: "b"}, {Shard: "c"}},
			want:    []planner.Bounds{{Min: 2, Most: most(4)}, {Min: 1, MinIdle: 1, Most: most(3)}, {Min: 1, Most: most(3)}},
			reason:  "web: a min 2 max 4, b min 1 minIdle 1 max 3, c min 1 max 3",
		},
		"what is kept of each kind is divided together, so that no shard keeps more than it may have": {
			total:   planner.Bounds{Min: 1, MinIdle: 1, Most: most(2)},
			holders: []planner.Holder{{Shard: "a"}, {Shard: "b"}},
			want:    []planner.Bounds{{Min: 1, Most: most(1)}, {MinIdle: 1, Most: most(1)}},
			reason:  "web: a min 1 max 1, b minIdle 1 max 1",
		},
		"fewer than there are shards": {
			total:   planner.Bounds{Most: most(1)},
			holders: []planner.Holder{{Shard: "a"}, {Shard: "b"}},
			want:    []planner.Bounds{{Most: most(1)}, {Most: most(0)}},
			reason:  "web: a max 1, b max 0",
		},
		"nothing changes": {
			total:   planner.Bounds{Most: most(4)},
			holders: []planner.Holder{says("a", planner.Bounds{Most: most(2)}, 2), says("b", planner.Bounds{Most: most(2)}, 0)},
			want:    []planner.Bounds{{Most: most(2)}, {Most: most(2)}},
		},
		"without a bound nothing is divided": {
			total:   unlimited,
			holders: []planner.Holder{says("a", planner.Bounds{Most: most(2)}, 2), says("b", planner.Bounds{Most: most(2)}, 0)},
			want:    []planner.Bounds{{}, {}},
			reason:  "web: a max 2→unlimited, b max 2→unlimited",
		},
		"more": {
			total:   planner.Bounds{Most: most(8)},
			holders: []planner.Holder{says("a", planner.Bounds{Most: most(2)}, 2), says("b", planner.Bounds{Most: most(2)}, 2)},
			want:    []planner.Bounds{{Most: most(4)}, {Most: most(4)}},
			reason:  "web: a max 2→4, b max 2→4",
		},
		"a bound where there was none waits for no shard: each has its part": {
			total:   planner.Bounds{Most: most(4)},
			holders: []planner.Holder{says("a", unlimited, 1), says("b", unlimited, 0)},
			want:    []planner.Bounds{{Most: most(2)}, {Most: most(2)}},
			reason:  "web: a max unlimited→2, b max unlimited→2",
		},
		"a shard that has more than its part keeps the others small, and itself shrinks at once": {
			total:   planner.Bounds{Min: 2, Most: most(8)},
			holders: []planner.Holder{says("a", planner.Bounds{Most: most(8)}, 6), {Shard: "b"}},
			want:    []planner.Bounds{{Min: 1, Most: most(4)}, {Most: most(0)}},
			waits:   true,
			reason:  "web: a min 0→1 max 8→4, b max 0; b gets max 0 of 4 until a has given up what it has",
		},
		"its server has accepted the smaller part: what its machines leave goes to the others": {
			total:   planner.Bounds{Min: 2, Most: most(8)},
			holders: []planner.Holder{says("a", planner.Bounds{Min: 1, Most: most(4)}, 6), says("b", planner.Bounds{Most: most(0)}, 0)},
			want:    []planner.Bounds{{Min: 1, Most: most(4)}, {Min: 1, Most: most(2)}},
			waits:   true,
			reason:  "web: b min 0→1 max 0→2; b gets max 2 of 4 until a has given up what it has",
		},
		"a server that has not accepted its smaller part counts with the greater one": {
			total: planner.Bounds{Most: most(8)},
			holders: []planner.Holder{
				{Shard: "a", Written: &planner.Bounds{Most: most(4)}, InForce: []planner.Bounds{{Most: most(4)}, {Most: most(8)}}, Used: most(0)},
				says("b", planner.Bounds{Most: most(0)}, 0),
			},
			want:   []planner.Bounds{{Most: most(4)}, {Most: most(0)}},
			waits:  true,
			reason: "web: b gets max 0 of 4 until a has given up what it has",
		},
		"a bound is lowered below what one shard's machines take: the others get what these leave": {
			total:   planner.Bounds{Min: 2, Most: most(4)},
			holders: []planner.Holder{says("a", planner.Bounds{Most: most(3)}, 3), says("b", planner.Bounds{Most: most(3)}, 0)},
			want:    []planner.Bounds{{Min: 1, Most: most(2)}, {Min: 1, Most: most(1)}},
			waits:   true,
			reason:  "web: a min 0→1 max 3→2, b min 0→1 max 3→1; b gets max 1 of 2 until a has given up what it has",
		},
		"a bound is lowered, and nothing is in its way": {
			total:   planner.Bounds{Most: most(4)},
			holders: []planner.Holder{says("a", planner.Bounds{Most: most(3)}, 0), says("b", planner.Bounds{Most: most(3)}, 0)},
			want:    []planner.Bounds{{Most: most(2)}, {Most: most(2)}},
			reason:  "web: a max 3→2, b max 3→2",
		},
		"a server that was told of a smaller part and does not accept it costs the others theirs": {
			total: planner.Bounds{Most: most(4)},
			holders: []planner.Holder{
				{Shard: "a", Written: &planner.Bounds{Most: most(2)}, InForce: []planner.Bounds{{Most: most(2)}, {Most: most(3)}}, Used: most(0)},
				says("b", planner.Bounds{Most: most(2)}, 0),
			},
			want:   []planner.Bounds{{Most: most(2)}, {Most: most(1)}},
			waits:  true,
			reason: "web: b max 2→1; b gets max 1 of 2 until a has given up what it has",
		},
		"a shard that was taken off the list gets nothing, and is waited for": {
			total: planner.Bounds{Min: 2, Most: most(8)},
			holders: []planner.Holder{
				says("a", planner.Bounds{Min: 1, Most: most(4)}, 4),
				{Shard: "b", Retiring: true, Written: &planner.Bounds{Min: 1, Most: most(4)}, InForce: []planner.Bounds{{Min: 1, Most: most(4)}}, Used: most(3)},
			},
			want:   []planner.Bounds{{Min: 2, Most: most(4)}, {Most: most(0)}},
			waits:  true,
			reason: "web: a min 1→2, b min 1→0 max 4→0; a gets max 4 of 8 until b has given up what it has",
		},
		"a limit whose use is not known is taken to be kept": {
			total: planner.Bounds{Most: map[planner.Bound]int64{vcpu: 64}},
			holders: []planner.Holder{
				says("a", planner.Bounds{Most: map[planner.Bound]int64{vcpu: 32}}, 9), {Shard: "b"},
			},
			want:   []planner.Bounds{{Most: map[planner.Bound]int64{vcpu: 32}}, {Most: map[planner.Bound]int64{vcpu: 32}}},
			reason: "web: b limits.vcpu 32",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := planner.Divide("web", c.total, c.holders)
			var got []planner.Bounds
			for i, s := range d.Shares {
				if s.Shard != c.holders[i].Shard {
					t.Errorf("share %d is that of %s", i, s.Shard)
				}
				got = append(got, s.Bounds)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if d.Reason != c.reason || d.Waits != c.waits {
				t.Errorf("reason %q, waits %t, want %q and %t", d.Reason, d.Waits, c.reason, c.waits)
			}
		})
	}
}

// server is one shard of the property test: it accepts what is written when it is reachable, and
// then buys as much as it may.
type server struct {
	written, accepted *planner.Bounds
	machines          int64
}

func (s *server) holder(name string, retiring bool) planner.Holder {
	h := planner.Holder{Shard: name, Retiring: retiring, Written: s.written, Used: most(s.machines)}
	for _, b := range []*planner.Bounds{s.written, s.accepted} {
		if b != nil {
			h.InForce = append(h.InForce, *b)
		}
	}
	return h
}

// Whatever shards do - buy as much as they may, give back or not, stay away for any time - their
// machines together never exceed the greatest bound of the time since they last kept it; and
// when all are there and give back, each has its equal part.
func TestDivideKeepsTheBoundWhateverAShardDoes(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 7))
		names := []string{"a", "b", "c", "d"}[:1+r.IntN(4)]
		shards := map[string]*server{}
		for _, name := range names {
			shards[name] = &server{}
		}
		total := planner.Bounds{Most: most(int64(r.IntN(30)))}
		listed := map[string]bool{names[0]: true}
		ceiling := int64(0) // no sum of machines may be above it
		pass := func(up func(string) bool, calm bool) []planner.Share {
			sum := int64(0)
			var holders []planner.Holder
			for _, name := range names {
				sum += shards[name].machines
				if s := shards[name]; listed[name] || s.written != nil || s.machines > 0 {
					holders = append(holders, s.holder(name, !listed[name]))
				}
			}
			ceiling = max(total.Most[planner.Machines], min(ceiling, sum+reserve(shards)))
			d := planner.Divide("web", total, holders)
			for _, share := range d.Shares {
				if share.Min+share.MinIdle > share.Most[planner.Machines] {
					t.Fatalf("seed %d: %s keeps more than it may have: %+v", seed, share.Shard, share)
				}
				b := share.Bounds
				b.Most = maps.Clone(share.Most)
				shards[share.Shard].written = &b
			}
			for _, name := range names {
				s := shards[name]
				if s.written != nil && up(name) {
					s.accepted = s.written
				}
				if s.accepted == nil {
					continue
				}
				switch allowed := s.accepted.Most[planner.Machines]; {
				case calm:
					s.machines = min(s.machines, allowed)
				case r.IntN(2) == 0:
					s.machines = max(s.machines, allowed)
				case r.IntN(3) == 0:
					s.machines = int64(r.IntN(int(s.machines) + 1))
				}
			}
			return d.Shares
		}
		for range 30 {
			switch r.IntN(6) {
			case 0:
				total.Most = most(int64(r.IntN(30)))
				total.Min = int64(r.IntN(int(total.Most[planner.Machines]) + 1))
				total.MinIdle = int64(r.IntN(int(total.Most[planner.Machines]-total.Min) + 1))
			case 1:
				name := names[r.IntN(len(names))]
				if !listed[name] || len(listed) > 1 {
					if listed[name] {
						delete(listed, name)
					} else {
						listed[name] = true
					}
				}
			}
			pass(func(string) bool { return r.IntN(3) > 0 }, false)
			sum := int64(0)
			for _, s := range shards {
				sum += s.machines
			}
			if sum > ceiling {
				t.Fatalf("seed %d: %d machines, and there may be %d: %s", seed, sum, ceiling, describe(shards))
			}
		}
		for range 4 {
			pass(func(string) bool { return true }, true)
		}
		kept := int64(0)
		for _, s := range pass(func(string) bool { return true }, true) {
			kept += s.Most[planner.Machines]
			part := total.Most[planner.Machines] / int64(len(listed))
			if n := s.Most[planner.Machines]; listed[s.Shard] && n != part && n != part+1 || !listed[s.Shard] && n != 0 {
				t.Fatalf("seed %d: %s has %d at rest, of %d over %d shards", seed, s.Shard, n, total.Most[planner.Machines], len(listed))
			}
		}
		if kept != total.Most[planner.Machines] {
			t.Fatalf("seed %d: the parts are %d together, want %d", seed, kept, total.Most[planner.Machines])
		}
	}
}

// reserve is how many machines shards may buy on top of those that they have by what they were told.
func reserve(shards map[string]*server) int64 {
	n := int64(0)
	for _, s := range shards {
		may := int64(0)
		for _, b := range []*planner.Bounds{s.written, s.accepted} {
			if b != nil {
				may = max(may, b.Most[planner.Machines])
			}
		}
		n += max(0, may-s.machines)
	}
	return n
}

func describe(shards map[string]*server) string {
	text := ""
	for name, s := range shards {
		text += fmt.Sprintf("%s: %+v written %v accepted %v; ", name, s.machines, s.written, s.accepted)
	}
	return text
}
