package planner

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// goTime is how time.Time.String writes a time, which is what the cluster autoscaler
// stores in the annotation.
const goTime = "2006-01-02 15:04:05.999999999 -0700 MST"

// RequestedAt reads when the deletion of a machine was requested from the value of its annotation: RFC 3339,
// or what time.Time.String writes. False: the value is no time, which is as good a request.
func RequestedAt(value string) (time.Time, bool) {
	value, _, _ = strings.Cut(strings.TrimSpace(value), " m=")
	for _, layout := range []string{time.RFC3339Nano, goTime} {
		if at, err := time.Parse(layout, value); err == nil {
			return at.UTC(), true
		}
	}
	return time.Time{}, false
}

// compareRequests puts the oldest request first. One without a time was written by a person,
// and comes before all with one.
func compareRequests(a, b Candidate) int {
	aAt, _ := RequestedAt(a.DeleteAnnotation)
	bAt, _ := RequestedAt(b.DeleteAnnotation)
	return cmp.Or(aAt.Compare(bAt), cmp.Compare(a.ID, b.ID))
}

// DeletionRequests returns the instances whose deletion somebody requested and that are not being deleted yet, in the
// order in which they are to go.
func DeletionRequests(candidates []Candidate) []DeletionRequest {
	requested := slices.DeleteFunc(slices.Clone(candidates), func(c Candidate) bool { return !c.Requested || c.Deleting })
	slices.SortFunc(requested, compareRequests)
	var requests []DeletionRequest
	for _, c := range requested {
		requests = append(requests, DeletionRequest{Instance: c.ID, Shard: c.Shard})
	}
	return requests
}
