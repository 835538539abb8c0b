package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func shard(name string, change func(*Shard)) Shard {
	s := Shard{Name: name, Reachable: true, Known: true, Group: &nstancev1.GroupStatus{Key: "web", Kind: "wrk", Etag: "e1"}, ConfigDigest: "c1"}
	if change != nil {
		change(&s)
	}
	return s
}

func TestO12_Choose(t *testing.T) {
	silent := func(s *Shard) { s.Reachable, s.Known, s.Group = false, false, nil }
	without := func(s *Shard) { s.Group = nil }
	busy := func(n int) func(*Shard) { return func(s *Shard) { s.OnDemand = n } }
	full := func(s *Shard) { s.NoRoom = "full" }
	for _, tt := range []struct {
		name   string
		wanted string
		tried  []string
		shards []Shard
		want   Choice
	}{
		{"the first of equals", "", nil, []Shard{shard("a", nil), shard("b", nil)}, Choice{Shard: "a", Kind: "wrk"}},
		{"the one with the fewest", "", nil, []Shard{shard("a", busy(2)), shard("b", busy(1)), shard("c", busy(1))}, Choice{Shard: "b", Kind: "wrk"}},
		{"not one that is silent, full or without the group", "", nil, []Shard{shard("a", silent), shard("b", full), shard("c", without), shard("d", busy(9))}, Choice{Shard: "d", Kind: "wrk"}},
		{"not one whose group is on its way out", "", nil, []Shard{shard("a", func(s *Shard) { s.Group.Deleting = true }), shard("b", nil)}, Choice{Shard: "b", Kind: "wrk"}},
		{"not one that was tried", "", []string{"a"}, []Shard{shard("a", nil), shard("b", nil)}, Choice{Shard: "b", Kind: "wrk"}},
		{"the one that is asked for, full or not", "b", nil, []Shard{shard("a", nil), shard("b", full)}, Choice{Shard: "b", Kind: "wrk"}},
		{"no shard has the group", "", nil, []Shard{shard("a", without)}, Choice{Reason: infrav1.ReasonGroupNotFound, Message: "no shard has group web; make the group, or another machine"}},
		{"one shard may have it", "", nil, []Shard{shard("a", without), shard("b", silent)}, Choice{Reason: infrav1.ReasonShardUnreachable, Message: "waiting for b to say whether they have group web"}},
		{"no room anywhere", "", nil, []Shard{shard("a", full), shard("b", silent)}, Choice{Reason: infrav1.ReasonCapacityUnavailable, Message: "no room for group web on a"}},
		{"all were tried", "", []string{"a"}, []Shard{shard("a", nil)}, Choice{Reason: infrav1.ReasonCapacityUnavailable, Message: "every shard that has group web was tried"}},
		{"a shard that is not configured", "x", nil, []Shard{shard("a", nil)}, Choice{Reason: infrav1.ReasonShardNotConfigured, Message: "shard x is not in the operator's configuration"}},
		{"the one that is asked for is silent", "a", nil, []Shard{shard("a", silent)}, Choice{Reason: infrav1.ReasonShardUnreachable, Message: "shard a does not answer"}},
		{"the one that is asked for lacks the group", "a", nil, []Shard{shard("a", without)}, Choice{Reason: infrav1.ReasonGroupNotFound, Message: "shard a has no group web; make the group, or another machine"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Choose("web", tt.wanted, tt.tried, tt.shards)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
