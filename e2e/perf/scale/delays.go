package scale

import (
	"fmt"
	"slices"
	"time"

	"nstance.dev/e2e/perf/bench"
)

// quantile returns the least of the delays that a share of q of them does not exceed. They
// are sorted; there is at least one.
func quantile(sorted []time.Duration, q float64) time.Duration {
	n := int(q * float64(len(sorted)))
	if float64(n) < q*float64(len(sorted)) {
		n++
	}
	return sorted[max(0, n-1)]
}

// delayRow is the row of delays whose 99th percentile is not to exceed a goal. Without
// delays it says so.
func delayRow(name string, delays []time.Duration, goal time.Duration) bench.Row {
	row := bench.Row{Measure: measure, Name: name + ", p99", Unit: "s", Floor: goal.Seconds(), Against: "the promise", Goal: bench.AtMost(1)}
	if len(delays) == 0 {
		row.Err = errNothing
		return row
	}
	sorted := slices.Clone(delays)
	slices.Sort(sorted)
	row.Ours = quantile(sorted, 0.99).Seconds()
	row.Name = fmt.Sprintf("%s, p99 of %d (p50 %s s)", name, len(sorted), seconds(quantile(sorted, 0.5)))
	return row
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }
