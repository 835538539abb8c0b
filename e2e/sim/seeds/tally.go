package seeds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"nstance.dev/e2e/sim"
)

// tally sums results up. The zero value is that of nothing.
type tally struct {
	runs, events, made int
	fired              map[string]int
}

func (a *tally) add(r sim.Result) {
	if a.fired == nil {
		a.fired = map[string]int{}
	}
	a.runs, a.events, a.made = a.runs+1, a.events+r.Events, a.made+r.Made
	for kind, n := range r.Fired {
		a.fired[kind] += n
	}
}

// report is for people. A fault that never hit anything has tested nothing, so each is
// there with its number.
func (a *tally) report(took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %d events (%d a seed), %d machines", a.runs, a.events, a.events/max(a.runs, 1), a.made)
	if took > 0 {
		fmt.Fprintf(&b, ", %.2f seeds/s, %.0f events/s", float64(a.runs)/took.Seconds(), float64(a.events)/took.Seconds())
	}
	for _, kind := range slices.Sorted(maps.Keys(a.fired)) {
		fmt.Fprintf(&b, "\n  %-24s %d", kind, a.fired[kind])
	}
	return b.String()
}
