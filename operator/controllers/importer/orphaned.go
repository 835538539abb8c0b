package importer

import (
	"slices"

	"nstance.dev/operator/capi"
)

// StillOrphaned returns the groups of in.Orphaned that still count: until the shard says that the
// group is gone, or on its way out, or a pool names it there again.
func (in Input) StillOrphaned() []capi.OrphanedGroup {
	return slices.DeleteFunc(slices.Clone(in.Orphaned), func(p capi.OrphanedGroup) bool {
		return in.taken(p) || in.ended(p)
	})
}

// taken is whether a pool has the group there, one that is on its way out left out.
func (in Input) taken(p capi.OrphanedGroup) bool {
	return slices.ContainsFunc(in.Pools, func(pool Pool) bool {
		return pool.Group == p.Group && !pool.Deleting && slices.Contains(pool.Shards, p.Shard)
	})
}

// ended is whether the shard has said that it has no such group, or not for long.
func (in Input) ended(p capi.OrphanedGroup) bool {
	i := slices.IndexFunc(in.Shards, func(s Shard) bool { return s.Name == p.Shard && s.Listed })
	return i >= 0 && !slices.ContainsFunc(in.Shards[i].Groups, func(g Group) bool { return g.Key == p.Group && !g.Deleting })
}
