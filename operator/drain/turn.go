package drain

import (
	"slices"
	"time"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// QueueEntry is a drain that waits for its turn, evicts or has ended.
type QueueEntry struct {
	Request Request
	Phase   Phase
	Started time.Time
}

// Turn reports whether a drain may go on beside the others, its own entry among them: all
// may cordon their Nodes, those that have begun to evict go on, and of the others those
// that [Next] names.
func Turn(instance string, all []QueueEntry, limit int, now time.Time) bool {
	waits := slices.ContainsFunc(all, func(w QueueEntry) bool {
		return w.Request.Instance == instance && w.Phase == infrav1.DrainCordoned
	})
	return !waits || slices.Contains(Next(all, limit, now), instance)
}

// Next returns the instances whose Nodes are cordoned and whose drains may go on, the most
// urgent first: as many as keep fewer than limit going, and those that have no more time to wait.
func Next(all []QueueEntry, limit int, now time.Time) []string {
	var queue []QueueEntry
	active := 0
	for _, w := range all {
		switch w.Phase {
		case infrav1.DrainEvicting, infrav1.DrainForcing, infrav1.DrainDetaching:
			active++
		case infrav1.DrainCordoned:
			queue = append(queue, w)
		}
	}
	slices.SortFunc(queue, func(a, b QueueEntry) int { return Compare(a.Request, b.Request) })
	var next []string
	for i, w := range queue {
		if i < limit-active || w.waitsNoLonger(now) {
			next = append(next, w.Request.Instance)
		}
	}
	return next
}

// waitsNoLonger reports whether a drain goes on whether or not it is its turn, because its
// force point has come.
func (w QueueEntry) waitsNoLonger(now time.Time) bool {
	return !w.Request.Deadline.IsZero() && !now.Before(ForcePoint(w.Started, w.Request.Deadline))
}
