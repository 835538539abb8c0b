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

// removals are the shards whose part a person deleted, and when.
func removals(pool *infrav1.NstanceMachinePool) map[string]time.Time {
	removed := map[string]time.Time{}
	for entry := range strings.SplitSeq(pool.Annotations[infrav1.AnnotationRemovedShards], ",") {
		name, text, _ := strings.Cut(entry, "=")
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			removed[name] = at.UTC()
		}
	}
	return removed
}

// formatRemovals writes what removals reads.
func formatRemovals(removed map[string]time.Time) string {
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(removed)) {
		entries = append(entries, name+"="+stamp(removed[name]))
	}
	return strings.Join(entries, ",")
}

// remembered are the removals that the pool has to know of: those of before that still
// count and whose shard it still lists, and the parts that a person is deleting now.
func (st state) remembered(now time.Time) map[string]time.Time {
	removed := removals(st.pool)
	maps.DeleteFunc(removed, func(name string, at time.Time) bool {
		return now.Sub(at) >= removal || !slices.Contains(st.pool.Spec.Shards, name)
	})
	for name, part := range st.parts {
		byPool := part.Annotations[infrav1.AnnotationRetiredByPool] == "true"
		if !part.DeletionTimestamp.IsZero() && !byPool && slices.Contains(st.pool.Spec.Shards, name) {
			if _, known := removed[name]; !known {
				removed[name] = part.DeletionTimestamp.UTC()
			}
		}
	}
	return removed
}
