package planner

import (
	"cmp"
	"slices"
	"time"
)

// MachineHealth is a machine of a pool as its health checks see it.
type MachineHealth struct {
	ID string
	// FailedSince is since when a health check calls it broken and waits for its owner
	// to replace it; zero: none does.
	FailedSince time.Time
	// Deleting: it is being deleted already.
	Deleting bool
	// SkipRemediation: somebody asked by annotation that it be left alone.
	SkipRemediation bool
	// OnHold: something is done to it that looks like a failure.
	OnHold bool
}

// Remediate returns the machines to be deleted, and so replaced, because a health check
// gave them up: the longest broken first, and at most a fifth of the pool, but one in any
// case, in the course of being deleted at the same time. One that is on hold is left alone until that
// ends.
func Remediate(pool []MachineHealth) []Victim {
	budget := max(1, len(pool)/5)
	var broken []MachineHealth
	for _, p := range pool {
		switch {
		case p.Deleting:
			budget--
		case !p.FailedSince.IsZero() && !p.SkipRemediation && !p.OnHold:
			broken = append(broken, p)
		}
	}
	slices.SortFunc(broken, func(a, b MachineHealth) int {
		return cmp.Or(a.FailedSince.Compare(b.FailedSince), cmp.Compare(a.ID, b.ID))
	})
	var chosen []Victim
	for _, p := range broken[:max(0, min(budget, len(broken)))] {
		chosen = append(chosen, Victim{p.ID, "its health check failed at " + p.FailedSince.UTC().Format(time.RFC3339)})
	}
	return chosen
}
