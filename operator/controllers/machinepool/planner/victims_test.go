package planner

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// works is a healthy instance of shard a, that many hours old.
func works(id string, hours int) Candidate {
	return Candidate{ID: id, Shard: "a", Created: ago(time.Duration(hours) * time.Hour), Machine: true, Joined: true}
}

func (c Candidate) but(change func(*Candidate)) Candidate { change(&c); return c }

func marked(value string) func(*Candidate) {
	return func(c *Candidate) { c.Requested, c.DeleteAnnotation = true, value }
}

func notReady(for_ time.Duration) func(*Candidate) {
	return func(c *Candidate) { c.NotReadySince = ago(for_) }
}

func neverJoined(c *Candidate) { c.Joined = false }
func noMachine(c *Candidate)   { c.Joined, c.Machine = false, false }
func deleting(c *Candidate)    { c.Deleting = true }
func elsewhere(c *Candidate)   { c.Shard = "b" }

func TestMarksAreServedInOrder(t *testing.T) {
	got := DeletionRequests([]Candidate{
		works("i-later", 1).but(marked("2026-01-02T03:00:00Z")),
		works("i-none", 9),
		works("i-person2", 1).but(marked("yes")),
		works("i-person1", 1).but(marked("")),
		works("i-autoscaler", 1).but(marked("2026-01-02 04:59:00.5 +0200 CEST m=+12.5")).but(elsewhere),
		works("i-deleting", 1).but(marked("")).but(deleting),
		works("i-same", 1).but(marked("2026-01-02T02:59:00.5Z")),
	})
	want := []DeletionRequest{
		{Instance: "i-person1", Shard: "a"},
		{Instance: "i-person2", Shard: "a"},
		{Instance: "i-autoscaler", Shard: "b"},
		{Instance: "i-same", Shard: "a"},
		{Instance: "i-later", Shard: "a"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMarkedAt(t *testing.T) {
	for value, want := range map[string]time.Time{
		"2026-01-02T03:04:05Z":                               now,
		" 2026-01-02T05:04:05+02:00 ":                        now,
		"2026-01-02 03:04:05 +0000 UTC":                      now,
		"2026-01-02 05:04:05 +0200 CEST m=+0.000000001":      now,
		"2026-01-02 03:04:05.25 +0000 UTC m=-3600.000000001": now.Add(250 * time.Millisecond),
		"":       {},
		"yes":    {},
		" m=+1":  {},
		"1234":   {},
		"now m=": {},
	} {
		got, ok := RequestedAt(value)
		if !got.Equal(want) || ok != !want.IsZero() {
			t.Errorf("%q: %v, %t, want %v", value, got, ok, want)
		}
	}
}

func FuzzMarkedAt(f *testing.F) {
	for _, seed := range []string{now.Format(time.RFC3339), now.String(), now.String() + " m=+1.5", "", "yes", "9999-12-31T23:59:59Z"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		at, ok := RequestedAt(value)
		if !ok {
			if !at.IsZero() {
				t.Fatalf("no time, and yet %v", at)
			}
			return
		}
		if again, ok := RequestedAt(at.String()); !ok || !again.Equal(at) {
			t.Fatalf("%q is %v, which reads back as %v", value, at, again)
		}
	})
}

func TestShrink(t *testing.T) {
	three := []Candidate{works("i1", 3), works("i2", 2), works("i3", 1)}
	because := func(id, why string) []Victim { return []Victim{{id, why}} }
	for _, tt := range []struct {
		name       string
		group      Group
		named      []string
		pick       int
		candidates []Candidate
		choice     Choice
		want       Shrunk
	}{
		{
			name: "nothing to do", group: Group{Size: 3}, candidates: three,
			want: Shrunk{Group: Group{Size: 3}},
		},
		{
			name: "the oldest by default", group: Group{Size: 3}, pick: 1, candidates: three,
			want: Shrunk{Group: Group{Size: 2, Retiring: []string{"i1"}}, Victims: because("i1", "oldest in a")},
		},
		{
			name: "the newest", group: Group{Size: 3}, pick: 1, candidates: three, choice: Choice{Policy: Newest},
			want: Shrunk{Group: Group{Size: 2, Retiring: []string{"i3"}}, Victims: because("i3", "newest in a")},
		},
		{
			name: "by lot", group: Group{Size: 3}, pick: 1, candidates: three, choice: Choice{Policy: Random, Seed: "pool-0"},
			want: Shrunk{Group: Group{Size: 2, Retiring: []string{"i2"}}, Victims: because("i2", "chosen at random in a")},
		},
		{
			name: "by another pool's lot", group: Group{Size: 3}, pick: 1, candidates: three, choice: Choice{Policy: Random, Seed: "other pool"},
			want: Shrunk{Group: Group{Size: 2, Retiring: []string{"i3"}}, Victims: because("i3", "chosen at random in a")},
		},
		{
			name: "the named one", group: Group{Size: 3}, named: []string{"i2"},
			candidates: []Candidate{works("i1", 3), works("i2", 2).but(marked("")), works("i3", 1)},
			want:       Shrunk{Group: Group{Size: 2, Retiring: []string{"i2"}}, Victims: because("i2", "named by an annotation on its machine")},
		},
		{
			name: "those that are least of use first", group: Group{Size: 5}, pick: 4,
			candidates: []Candidate{
				works("old", 9), works("sick", 1).but(notReady(SickAfter + time.Second)), works("absent", 1).but(neverJoined),
				works("unmade", 1).but(noMachine), works("marked", 1).but(marked("")),
			},
			want: Shrunk{
				Group: Group{Size: 1, Retiring: []string{"absent", "marked", "sick", "unmade"}},
				Victims: []Victim{
					{"marked", "named by an annotation on its machine"},
					{"unmade", "it has no machine yet"},
					{"absent", "its machine never became a node"},
					{"sick", "its node has not been ready for 5m1s"},
				},
			},
		},
		{
			name: "not ready for a short time is no illness", group: Group{Size: 2}, pick: 1,
			candidates: []Candidate{works("i1", 2), works("i2", 1).but(notReady(SickAfter))},
			want:       Shrunk{Group: Group{Size: 1, Retiring: []string{"i1"}}, Victims: because("i1", "oldest in a")},
		},
		{
			name: "those that go already are not chosen again", group: Group{Size: 2, Retiring: []string{"i2"}}, pick: 1,
			candidates: []Candidate{works("i1", 4).but(deleting), works("i2", 3), works("i3", 2), works("i4", 1)},
			want:       Shrunk{Group: Group{Size: 1, Retiring: []string{"i2", "i3"}}, Victims: because("i3", "oldest in a")},
		},
		{
			name: "other shards are not ours", group: Group{Size: 1}, pick: 1,
			candidates: []Candidate{works("i1", 4).but(elsewhere), works("i2", 1)},
			want:       Shrunk{Group: Group{Retiring: []string{"i2"}}, Victims: because("i2", "oldest in a")},
		},
		{
			name: "what was not made yet is not made", group: Group{Size: 5}, pick: 2, candidates: three,
			want: Shrunk{Group: Group{Size: 3}, Vacant: 2},
		},
		{
			name: "what was not made yet first, then the oldest", group: Group{Size: 5}, pick: 3, candidates: three,
			want: Shrunk{Group: Group{Size: 2, Retiring: []string{"i1"}}, Vacant: 2, Victims: because("i1", "oldest in a")},
		},
		{
			name: "the named one goes even if others were not made yet", group: Group{Size: 5}, named: []string{"i3"}, pick: 1,
			candidates: []Candidate{works("i1", 3), works("i2", 2), works("i3", 1).but(marked("yes"))},
			want: Shrunk{
				Group: Group{Size: 3, Retiring: []string{"i3"}}, Vacant: 1, Victims: because("i3", "named by an annotation on its machine"),
			},
		},
		{
			name: "the named one is condemned already: its replacement is not made", group: Group{Size: 2}, named: []string{"i1"},
			candidates: []Candidate{works("i1", 2).but(deleting), works("i2", 1)},
			want:       Shrunk{Group: Group{Size: 1}, Vacant: 1},
		},
		{
			name: "the named one is condemned and replaced: the replacement goes", group: Group{Size: 2}, named: []string{"i1"},
			candidates: []Candidate{works("i1", 2).but(deleting), works("i2", 1), works("i3", 0).but(noMachine)},
			want:       Shrunk{Group: Group{Size: 1, Retiring: []string{"i3"}}, Victims: because("i3", "it has no machine yet")},
		},
		{
			name: "more than there are", group: Group{Size: 2}, pick: 5, candidates: three,
			want: Shrunk{
				Group:   Group{Retiring: []string{"i1", "i2"}},
				Victims: []Victim{{"i1", "oldest in a"}, {"i2", "oldest in a"}},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			change := Change{Shard: "a", Requested: tt.named, Pick: tt.pick}
			got := Shrink(tt.group, change, tt.candidates, tt.choice, now)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestS22_TheListOfRetiringHasALimit(t *testing.T) {
	var many []Candidate
	for i := range MaxRetiring + 500 {
		many = append(many, works(string(rune('a'+i/26/26))+string(rune('a'+i/26%26))+string(rune('a'+i%26)), 1))
	}
	g := Group{Size: len(many), Retiring: []string{"gone1", "gone2"}}
	got := Shrink(g, Change{Shard: "a", Pick: len(many)}, many, Choice{}, now)
	if len(got.Retiring) != MaxRetiring || got.Left != 502 || got.Size != 502 {
		t.Errorf("%d retiring, %d left, size %d", len(got.Retiring), got.Left, got.Size)
	}
}

func TestForget(t *testing.T) {
	g := Group{Size: 3, Retiring: []string{"i1", "i2", "i3"}}
	got := Forget(g, func(id string) bool { return id == "i2" })
	if diff := cmp.Diff(Group{Size: 3, Retiring: []string{"i1", "i3"}}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"i1", "i2", "i3"}, g.Retiring); diff != "" {
		t.Error("forgetting changed its input:", diff)
	}
}

// candidates draws instances of two shards, in any condition.
func candidates(t *rapid.T) []Candidate {
	var all []Candidate
	for i := range rapid.IntRange(0, 12).Draw(t, "candidates") {
		c := works(string(rune('a'+i)), rapid.IntRange(0, 5).Draw(t, "age"))
		for _, change := range rapid.SliceOfN(rapid.SampledFrom([]func(*Candidate){
			deleting, neverJoined, noMachine, elsewhere, marked(""), marked(now.String()), notReady(time.Hour),
		}), 0, 2).Draw(t, "changes") {
			change(&c)
		}
		all = append(all, c)
	}
	return all
}

// The server never has to choose: what it is told is lowered only by instances that do
// not exist, and each one that goes is named.
func TestO6_TheServerNeverChooses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := candidates(t)
		g := Group{Size: rapid.IntRange(0, 12).Draw(t, "size")}
		live := 0
		for _, c := range all {
			if rapid.IntRange(0, 4).Draw(t, "retiring") == 0 {
				g.Retiring = append(g.Retiring, c.ID)
			} else if c.Shard == "a" && !c.Deleting {
				live++
			}
		}
		change := Change{Shard: "a", Pick: rapid.IntRange(0, 6).Draw(t, "pick")}
		for _, m := range DeletionRequests(all) {
			if m.Shard == "a" && rapid.Bool().Draw(t, "named") {
				change.Requested = append(change.Requested, m.Instance)
			}
		}
		choice := Choice{Policy: rapid.SampledFrom([]VictimPolicy{"", Oldest, Newest, Random}).Draw(t, "policy")}
		got := Shrink(g, change, all, choice, now)

		wanted := min(g.Size, len(change.Requested)+change.Pick)
		if g.Size-got.Size != wanted || len(got.Victims)+got.Vacant != wanted {
			t.Fatalf("size %d to %d by %d victims and %d vacant, wanted %d less", g.Size, got.Size, len(got.Victims), got.Vacant, wanted)
		}
		before, after := g.Size+len(g.Retiring), got.Size+len(got.Retiring)
		if after != before-got.Vacant {
			t.Fatalf("size and retiring instances went from %d to %d, and %d do not exist", before, after, got.Vacant)
		}
		if got.Vacant > max(0, g.Size-live) {
			t.Fatalf("%d vacant of %d with %d instances", got.Vacant, g.Size, live)
		}
		if !slices.IsSorted(got.Retiring) || len(slices.Compact(slices.Clone(got.Retiring))) != len(g.Retiring)+len(got.Victims) {
			t.Fatalf("retiring %v", got.Retiring)
		}
		for _, v := range got.Victims {
			i := slices.IndexFunc(all, func(c Candidate) bool { return c.ID == v.ID })
			if c := all[i]; c.Deleting || c.Shard != "a" || slices.Contains(g.Retiring, c.ID) || v.Why == "" {
				t.Fatalf("%+v was chosen: %q", c, v.Why)
			}
		}
		if diff := cmp.Diff(got, Shrink(g, change, all, choice, now)); diff != "" {
			t.Fatalf("the second time: %s", diff)
		}
	})
}

func TestRemediate(t *testing.T) {
	pool := func(n int, patients ...MachineHealth) []MachineHealth {
		return append(patients, make([]MachineHealth, n-len(patients))...)
	}
	broken := func(id string, hours int) MachineHealth {
		return MachineHealth{ID: id, FailedSince: ago(time.Duration(hours) * time.Hour)}
	}
	deleting := MachineHealth{ID: "l", FailedSince: ago(time.Hour), Deleting: true}
	spared := MachineHealth{ID: "s", FailedSince: ago(time.Hour), SkipRemediation: true}
	one, two := broken("i1", 1), broken("i2", 2)
	first := Victim{"i2", "its health check failed at 2026-01-02T01:04:05Z"}
	second := Victim{"i1", "its health check failed at 2026-01-02T02:04:05Z"}
	for _, tt := range []struct {
		name string
		pool []MachineHealth
		want []Victim
	}{
		{"nobody is broken", pool(5), nil},
		{"one of a small pool", pool(2, one, two), []Victim{first}},
		{"a fifth of a great one", pool(10, one, two, broken("i0", 0)), []Victim{first, second}},
		{"one goes already", pool(10, one, two, deleting), []Victim{first}},
		{"as many go already as may", pool(9, one, deleting), nil},
		{"more go already than may", pool(4, one, deleting, deleting), nil},
		{"one is to be left alone", pool(3, spared), nil},
		{"M84: one is on hold", pool(3, MachineHealth{ID: "h", FailedSince: ago(time.Hour), OnHold: true}, one), []Victim{second}},
		{"an empty pool", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Remediate(tt.pool)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// M62: an instance whose host is repaved goes last, however it looks, unless somebody named it.
func TestM62_RepavingGoesLast(t *testing.T) {
	repaving := func(c *Candidate) { c.Repaving = true }
	all := []Candidate{
		works("i-repaving-sick", 9).but(repaving).but(notReady(time.Hour)), works("i-repaving-never", 8).but(repaving).but(neverJoined),
		works("i-healthy", 1), works("i-sick", 2).but(notReady(time.Hour)), works("i-named", 1).but(repaving).but(marked("")),
	}
	var got []string
	for _, v := range (Choice{Policy: Oldest}).pick(all, len(all), now) {
		got = append(got, v.ID)
	}
	if want := []string{"i-named", "i-sick", "i-healthy", "i-repaving-sick", "i-repaving-never"}; !slices.Equal(got, want) {
		t.Errorf("chosen %v, want %v", got, want)
	}
}

// M84: an instance that is on hold goes after all others, and one that somebody named goes nevertheless.
func TestM84_OnHoldGoesLast(t *testing.T) {
	held := func(c *Candidate) { c.OnHold = true }
	all := []Candidate{
		works("i-held-sick", 9).but(held).but(notReady(time.Hour)), works("i-held-never", 8).but(held).but(neverJoined), works("i-held-off", 7).but(held),
		works("i-healthy", 1), works("i-sick", 2).but(notReady(time.Hour)), works("i-named", 1).but(held).but(marked("")),
	}
	got := (Choice{Policy: Oldest}).pick(all, 4, now)
	var ids []string
	for _, v := range got {
		ids = append(ids, v.ID)
	}
	if want := []string{"i-named", "i-sick", "i-healthy", "i-held-sick"}; !slices.Equal(ids, want) {
		t.Errorf("chosen %v, want %v", ids, want)
	}
	if why := got[len(got)-1].Why; why != "it is on hold, and all others go before it" {
		t.Errorf("chosen because %q", why)
	}
}
