package importing

import (
	"maps"
	"slices"
	"strings"

	"nstance.dev/operator/names"
)

// Place is a group on one shard.
type Place struct{ Group, Shard string }

// FormatPlaces writes places, each once and sorted, as they stand on a cluster:
// web--a,web--b.
func FormatPlaces(places []Place) string {
	all := map[string]bool{}
	for _, p := range places {
		all[names.ShardGroup(p.Group, p.Shard)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), ",")
}

// ParsePlaces reads what FormatPlaces wrote. A person may write there too, so what is no
// place is passed over.
func ParsePlaces(text string) []Place {
	var places []Place
	for entry := range strings.SplitSeq(text, ",") {
		if group, shard, ok := names.SplitShardGroup(strings.TrimSpace(entry)); ok {
			places = append(places, Place{group, shard})
		}
	}
	return places
}

// StillLeft returns the places of in.Left that still count: until the shard says that the
// group is gone, or on its way out, or a pool names it there again.
func (in Input) StillLeft() []Place {
	return slices.DeleteFunc(slices.Clone(in.Left), func(p Place) bool {
		return in.taken(p) || in.ended(p)
	})
}

// taken is whether a pool has the group there, one that is on its way out left out.
func (in Input) taken(p Place) bool {
	return slices.ContainsFunc(in.Pools, func(pool Pool) bool {
		return pool.Group == p.Group && !pool.Deleting && slices.Contains(pool.Shards, p.Shard)
	})
}

// ended is whether the shard has said that it has no such group, or not for long.
func (in Input) ended(p Place) bool {
	i := slices.IndexFunc(in.Shards, func(s Shard) bool { return s.Name == p.Shard && s.Listed })
	return i >= 0 && !slices.ContainsFunc(in.Shards[i].Groups, func(g Group) bool { return g.Key == p.Group && !g.Deleting })
}
