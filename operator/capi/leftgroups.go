package capi

import (
	"maps"
	"slices"
	"strings"
)

// LeftGroup is a group that a deleted pool has left on one shard.
type LeftGroup struct{ Group, Shard string }

// FormatLeftGroups writes groups, each once and sorted, as they stand on a cluster:
// web--a,web--b.
func FormatLeftGroups(left []LeftGroup) string {
	all := map[string]bool{}
	for _, p := range left {
		all[ShardGroup(p.Group, p.Shard)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), ",")
}

// ParseLeftGroups reads what FormatLeftGroups wrote. A user may write there too, so what
// names no group and shard is passed over.
func ParseLeftGroups(text string) []LeftGroup {
	var left []LeftGroup
	for entry := range strings.SplitSeq(text, ",") {
		if group, shard, ok := SplitShardGroup(strings.TrimSpace(entry)); ok {
			left = append(left, LeftGroup{group, shard})
		}
	}
	return left
}
