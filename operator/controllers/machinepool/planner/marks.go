package planner

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// goTime is how time.Time.String writes a time, which is what the cluster autoscaler
// stores in the mark.
const goTime = "2006-01-02 15:04:05.999999999 -0700 MST"

// MarkedAt reads when a machine was marked from the value of its annotation: RFC 3339,
// or what time.Time.String writes. False: the value is no time, which is as good a mark.
func MarkedAt(value string) (time.Time, bool) {
	value, _, _ = strings.Cut(strings.TrimSpace(value), " m=")
	for _, layout := range []string{time.RFC3339Nano, goTime} {
		if at, err := time.Parse(layout, value); err == nil {
			return at.UTC(), true
		}
	}
	return time.Time{}, false
}

// compareMarks puts the oldest mark first. One without a time was written by a person,
// and comes before all with one.
func compareMarks(a, b Candidate) int {
	aAt, _ := MarkedAt(a.Mark)
	bAt, _ := MarkedAt(b.Mark)
	return cmp.Or(aAt.Compare(bAt), cmp.Compare(a.ID, b.ID))
}

// Marks returns the instances that somebody named and that are not leaving yet, in the
// order in which they are to go.
func Marks(candidates []Candidate) []Mark {
	marked := slices.DeleteFunc(slices.Clone(candidates), func(c Candidate) bool { return !c.Marked || c.Leaving })
	slices.SortFunc(marked, compareMarks)
	var marks []Mark
	for _, c := range marked {
		marks = append(marks, Mark{Instance: c.ID, Shard: c.Shard})
	}
	return marks
}
