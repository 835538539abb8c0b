package drain

import (
	"slices"
	"time"

	api "nstance.dev/operator/api/infrastructure/v1beta1"
)

// Waiting is a drain among others.
type Waiting struct {
	Request Request
	Phase   Phase
	Started time.Time
}

// Turn reports whether a drain may go on beside the others, its own entry among them: all
// may cordon their Nodes, those that have begun to evict go on, and of the others the most
// urgent ones begin as long as fewer than limit go on. One that has no more time does not
// wait.
func Turn(instance string, all []Waiting, limit int, now time.Time) bool {
	var queue []Waiting
	active := 0
	for _, w := range all {
		switch w.Phase {
		case api.DrainEvicting, api.DrainForcing, api.DrainDetaching:
			active++
		case api.DrainCordoned:
			queue = append(queue, w)
		}
	}
	i := slices.IndexFunc(queue, func(w Waiting) bool { return w.Request.Instance == instance })
	if i < 0 {
		return true
	}
	if r := queue[i]; !r.Request.Deadline.IsZero() && !now.Before(ForcePoint(r.Started, r.Request.Deadline)) {
		return true
	}
	slices.SortFunc(queue, func(a, b Waiting) int { return Compare(a.Request, b.Request) })
	return slices.IndexFunc(queue, func(w Waiting) bool { return w.Request.Instance == instance }) < limit-active
}
