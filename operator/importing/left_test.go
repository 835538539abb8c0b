package importing

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestO3_WhatIsLeftIsForgotten(t *testing.T) {
	web := Place{"web", "a"}
	has := listed("a", Group{Key: "web"})
	for _, tt := range []struct {
		name string
		in   Input
		want []Place
	}{
		{"not while it is there", Input{Shards: []Shard{has}}, []Place{web}},
		{"nor while nobody knows", Input{Shards: []Shard{{Name: "a"}}}, []Place{web}},
		{"nor while its shard is not configured", Input{Shards: []Shard{listed("b")}}, []Place{web}},
		{"when it is gone", Input{Shards: []Shard{listed("a")}}, []Place{}},
		{"when it is on its way out", Input{Shards: []Shard{listed("a", Group{Key: "web", Deleting: true})}}, []Place{}},
		{"when a pool has it again", Input{Shards: []Shard{has}, Pools: []Pool{{Group: "web", Shards: []string{"a"}}}}, []Place{}},
		{"not when a pool has it elsewhere", Input{Shards: []Shard{has}, Pools: []Pool{{Group: "web", Shards: []string{"b"}}}}, []Place{web}},
		{"nor by the pool that leaves it", Input{Shards: []Shard{has}, Pools: []Pool{{Group: "web", Shards: []string{"a"}, Deleting: true}}}, []Place{web}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Left = []Place{web}
			if diff := cmp.Diff(tt.want, tt.in.StillLeft()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlaces(t *testing.T) {
	places := []Place{{"api", "us-west-2a"}, {"web", "us-west-2a"}, {"web", "us-west-2b"}}
	text := FormatPlaces(append([]Place{places[2], places[0]}, places...))
	if text != "api--us-west-2a,web--us-west-2a,web--us-west-2b" {
		t.Errorf("written as %q", text)
	}
	if diff := cmp.Diff(places, ParsePlaces(" "+text+",,nonsense")); diff != "" {
		t.Error(diff)
	}
	if got := ParsePlaces(""); got != nil {
		t.Errorf("nothing reads as %v", got)
	}
}
