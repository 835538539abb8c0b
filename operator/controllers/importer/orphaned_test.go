package importer

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/operator/capi"
)

func TestO3_WhatIsLeftIsForgotten(t *testing.T) {
	web := capi.OrphanedGroup{Group: "web", Shard: "a"}
	has := listed("a", Group{Key: "web"})
	for _, tt := range []struct {
		name string
		in   Input
		want []capi.OrphanedGroup
	}{
		{"not while it is there", Input{Shards: []Shard{has}}, []capi.OrphanedGroup{web}},
		{"nor while nobody knows", Input{Shards: []Shard{{Name: "a"}}}, []capi.OrphanedGroup{web}},
		{"nor while its shard is not configured", Input{Shards: []Shard{listed("b")}}, []capi.OrphanedGroup{web}},
		{"when it is gone", Input{Shards: []Shard{listed("a")}}, []capi.OrphanedGroup{}},
		{"when it is on its way out", Input{Shards: []Shard{listed("a", Group{Key: "web", Deleting: true})}}, []capi.OrphanedGroup{}},
		{"when a pool has it again", Input{Shards: []Shard{has}, Pools: []Pool{{Group: "web", Shards: []string{"a"}}}}, []capi.OrphanedGroup{}},
		{"not when a pool has it elsewhere", Input{Shards: []Shard{has}, Pools: []Pool{{Group: "web", Shards: []string{"b"}}}}, []capi.OrphanedGroup{web}},
		{"nor by the pool that leaves it", Input{Shards: []Shard{has}, Pools: []Pool{{Group: "web", Shards: []string{"a"}, Deleting: true}}}, []capi.OrphanedGroup{web}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Orphaned = []capi.OrphanedGroup{web}
			if diff := cmp.Diff(tt.want, tt.in.StillOrphaned()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
