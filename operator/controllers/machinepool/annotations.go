package machinepool

import (
	"maps"
	"slices"
	"strings"
	"time"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// moment reads a time that an annotation has; zero: there is none, or it is none.
func moment(annotations map[string]string, key string) time.Time {
	at, err := time.Parse(time.RFC3339, annotations[key])
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// stamp writes a time for an annotation; empty for none.
func stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// removedShardTTL is how long a shard is planned around after a user deleted its shard group.
const removedShardTTL = 10 * time.Minute

// userRemovedShards are the shards whose shard group a user deleted, and when.
func userRemovedShards(pool *infrav1.NstanceMachinePool) map[string]time.Time {
	removed := map[string]time.Time{}
	for entry := range strings.SplitSeq(pool.Annotations[infrav1.AnnotationRemovedShards], ",") {
		name, text, _ := strings.Cut(entry, "=")
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			removed[name] = at.UTC()
		}
	}
	return removed
}

// formatUserRemovedShards writes what userRemovedShards reads.
func formatUserRemovedShards(removed map[string]time.Time) string {
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(removed)) {
		entries = append(entries, name+"="+stamp(removed[name]))
	}
	return strings.Join(entries, ",")
}
