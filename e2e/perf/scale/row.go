package scale

import (
	"errors"

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
