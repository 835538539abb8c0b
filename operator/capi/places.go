package capi

import (
	"maps"
	"slices"
	"strings"
)

// Place is a group on one shard.
type Place struct{ Group, Shard string }

// FormatPlaces writes places, each once and sorted, as they stand on a cluster:
// web--a,web--b.
func FormatPlaces(places []Place) string {
	all := map[string]bool{}
	for _, p := range places {
		all[ShardGroup(p.Group, p.Shard)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), ",")
}

// ParsePlaces reads what FormatPlaces wrote. A person may write there too, so what is no
// place is passed over.
func ParsePlaces(text string) []Place {
	var places []Place
	for entry := range strings.SplitSeq(text, ",") {
		if group, shard, ok := SplitShardGroup(strings.TrimSpace(entry)); ok {
			places = append(places, Place{group, shard})
		}
	}
	return places
}
