package importer

import (
	"slices"

	"nstance.dev/operator/capi"
)

// StillLeft returns the groups of in.Left that still count: until the shard says that the
// group is gone, or on its way out, or a pool names it there again.
func (in Input) StillLeft() []capi.LeftGroup {
	return slices.DeleteFunc(slices.Clone(in.Left), func(p capi.LeftGroup) bool {
		return in.taken(p) || in.ended(p)
	})
}

// taken is whether a pool has the group there, one that is on its way out left out.
func (in Input) taken(p capi.LeftGroup) bool {
	return slices.ContainsFunc(in.Pools, func(pool Pool) bool {
		return pool.Group == p.Group && !pool.Deleting && slices.Contains(pool.Shards, p.Shard)
	})
}

// ended is whether the shard has said that it has no such group, or not for long.
func (in Input) ended(p capi.LeftGroup) bool {
	i := slices.IndexFunc(in.Shards, func(s Shard) bool { return s.Name == p.Shard && s.Listed })
	return i >= 0 && !slices.ContainsFunc(in.Shards[i].Groups, func(g Group) bool { return g.Key == p.Group && !g.Deleting })
}
