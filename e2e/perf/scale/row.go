package scale

import (
	"cmp"
	"errors"
	"slices"

	"nstance.dev/e2e/perf/bench"
)

// measure is the number of all rows.
const measure = "T4"

// errNothing is why a row has no number.
var errNothing = errors.New("nothing was measured")

// promise is the row of a number that is not to exceed a goal in its own unit.
func promise(name, unit string, ours, goal float64) bench.Row {
	return bench.Row{Measure: measure, Name: name, Unit: unit, Ours: ours, Floor: goal, Against: "the promise", Goal: bench.AtMost(1)}
}

// median returns the row with the median ratio, the greater one of two in the middle; there is at least one row. What
// else goes on in a cluster may hit any one of several times.
func median(rows []bench.Row) bench.Row {
	sorted := slices.Clone(rows)
	slices.SortFunc(sorted, func(a, b bench.Row) int { return cmp.Compare(a.Ratio(), b.Ratio()) })
	return sorted[len(sorted)/2]
}
