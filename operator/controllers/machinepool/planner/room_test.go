package planner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/operator/inventory"
)

func TestRetire(t *testing.T) {
	until := at(RetireTimeout)
	for _, tt := range []struct {
		name  string
		input RetireInput
		now   time.Duration
		want  Retirement
	}{
		{"listed", RetireInput{Shard: "c", Listed: true}, 0, Retirement{}},
		{"listed again", RetireInput{Shard: "c", Listed: true, Until: until}, 0, Retirement{Kind: RetireCancel, Reason: "c is listed again"}},
		{
			"just taken off, even if the others are ready", RetireInput{Shard: "c"}, 0,
			Retirement{Kind: RetireBegin, Until: until, Reason: "c is no longer listed"},
		},
		{
			"the others are not ready", RetireInput{Shard: "c", Until: until, OthersWant: 6, OthersReady: 5}, RetireTimeout - 1,
			Retirement{Kind: RetireWait, Until: until, Reason: "c keeps its instances: the other shards have 5 ready nodes of 6"},
		},
		{
			"the others are ready", RetireInput{Shard: "c", Until: until, OthersWant: 6, OthersReady: 6}, time.Second,
			Retirement{Kind: RetireRemove, Reason: "c is removed: the other shards have 6 ready nodes of 6"},
		},
		{
			"the time has come", RetireInput{Shard: "c", Until: until, OthersWant: 6, OthersReady: 5}, RetireTimeout,
			Retirement{Kind: RetireRemove, Reason: "c is removed after 15m0s: the other shards have 5 ready nodes of 6"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Retire(tt.input, at(tt.now))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestL8_WhatIsNotFilledGoesElsewhere(t *testing.T) {
	full := inventory.CoolOff{}.Refused(start, inventory.Refusal{Why: "no room for m5.large"})
	seen := func(text string, present ...int) []Filling {
		var all []Filling
		for i, s := range shards(text) {
			f := Filling{Shard: s, Present: present[i]}
			if s.Refusal != "" {
				f.CoolOff = full
			}
			all = append(all, f)
		}
		return all
	}
	lowered := []Lowered{{Shard: "b", From: 3, To: 2, Reason: "b has 2 of 3 and no room for more: no room for m5.large"}}
	for _, tt := range []struct {
		name   string
		shards []Filling
		now    time.Duration
		want   []Lowered
	}{
		{"not filled for a minute", seen("a=3 b=3-", 3, 2), UnfilledTimeout, lowered},
		{"not filled for less", seen("a=3 b=3-", 3, 2), UnfilledTimeout - 1, nil},
		{"filled", seen("a=3 b=3-", 3, 3), UnfilledTimeout, nil},
		{"more than filled", seen("a=3 b=3-", 3, 4), UnfilledTimeout, nil},
		{"cooled off", seen("a=3 b=3-", 3, 2), inventory.FirstCoolOff, nil},
		{"the other is unreachable", seen("a=3! b=3-", 3, 2), UnfilledTimeout, nil},
		{"the other has no room either", seen("a=3- b=3-", 3, 2), UnfilledTimeout, nil},
		{"it is incomplete", seen("a=3 b=3-?", 3, 2), UnfilledTimeout, nil},
		{"missing without a refusal", seen("a=3 b=3", 3, 2), UnfilledTimeout, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Unfilled(tt.shards, at(tt.now))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A shard is told no more than its pool wants of it: what the others leave, or its equal part.
func TestS5_Most(t *testing.T) {
	for _, tt := range []struct {
		name     string
		replicas int
		sizes    []int
		surge    int // the shard with an open move; -1: none
		want     []int
	}{
		{"as it should be", 6, []int{3, 3}, -1, []int{3, 3}},
		{"an uneven split", 6, []int{5, 1}, -1, []int{5, 3}},
		{"one shard whose pool has shrunk", 1, []int{5}, -1, []int{1}},
		{"the pool has shrunk, and one shard is not fully known", 6, []int{5, 3}, -1, []int{3, 3}},
		{"the other one keeps its part", 2, []int{5, 1}, -1, []int{1, 1}},
		{"a move is open", 6, []int{4, 3}, 0, []int{4, 3}},
		{"a move is open elsewhere", 6, []int{2, 5}, 1, []int{3, 5}},
		{"nobody wants anything", 0, []int{2, 2}, -1, []int{0, 0}},
		{"a negative size", -1, []int{2}, -1, []int{0}},
	} {
		p := Pool{Replicas: tt.replicas}
		for i, size := range tt.sizes {
			p.Shards = append(p.Shards, Shard{Name: string(rune('a' + i)), Size: size, Surge: i == tt.surge})
		}
		for i, want := range tt.want {
			if got := p.Most(p.Shards[i].Name); got != want {
				t.Errorf("%s: shard %d is told %d at most, want %d", tt.name, i, got, want)
			}
		}
	}
}
