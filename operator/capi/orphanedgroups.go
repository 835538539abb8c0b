package capi

import (
	"maps"
	"slices"
	"strings"
)

// OrphanedGroup is a group that a deleted pool has left on one shard.
type OrphanedGroup struct{ Group, Shard string }

// FormatOrphanedGroups writes groups, each once and sorted, as they stand on a cluster:
// web--a,web--b.
func FormatOrphanedGroups(groups []OrphanedGroup) string {
	all := map[string]bool{}
	for _, g := range groups {
		all[ShardGroup(g.Group, g.Shard)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), ",")
}

// ParseOrphanedGroups reads what FormatOrphanedGroups wrote. A user may write there too, so what
// names no group and shard is passed over.
func ParseOrphanedGroups(text string) []OrphanedGroup {
	var groups []OrphanedGroup
	for entry := range strings.SplitSeq(text, ",") {
		if group, shard, ok := SplitShardGroup(strings.TrimSpace(entry)); ok {
			groups = append(groups, OrphanedGroup{group, shard})
		}
	}
	return groups
}
