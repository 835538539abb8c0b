package importing

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/operator/names"
)

func TestO3_WhatIsLeftIsForgotten(t *testing.T) {
	web := names.Place{Group: "web", Shard: "a"}
	has := listed("a", Group{Key: "web"})
	for _, tt := range []struct {
		name string
		in   Input
		want []names.Place
	}{
		{"not while it is there", Input{Shards: []Shard{has}}, []names.Place{web}},
		{"nor while nobody knows", Input{Shards: []Shard{{Name: "a"}}}, []names.Place{web}},
		{"nor while its shard is not configured", Input{Shards: []Shard{listed("b")}}, []names.Place{web}},
		{"when it is gone", Input{Shards: []Shard{listed("a")}}, []names.Place{}},
		{"when it is on its way out", Input{Shards: []Shard{listed("a", Group{Key: "web", Deleting: true})}}, []names.Place{}},
		{"when a pool has it again", Input{Shards: []Shard{has}, Pools: []Pool{{Group: "web", Shards: []string{"a"}}}}, []names.Place{}},
		{"not when a pool has it elsewhere", Input{Shards: []Shard{has}, Pools: []Pool{{Group: "web", Shards: []string{"b"}}}}, []names.Place{web}},
		{"nor by the pool that leaves it", Input{Shards: []Shard{has}, Pools: []Pool{{Group: "web", Shards: []string{"a"}, Deleting: true}}}, []names.Place{web}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Left = []names.Place{web}
			if diff := cmp.Diff(tt.want, tt.in.StillLeft()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
