package hostile

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// asLong is what two kinds of calls come to whose answers take the same time.
const asLong = "equally long"

// timing are attempts to tell by the clock what another tenant has from what nobody has.
func timing() []attempt {
	return []attempt{
		{"F46", "the time of an answer about an instance", asLong, func(t *testing.T, w *world) string {
			return w.timed(t, callsByID[0], w.foreign(t), newID(t, "mut"))
		}},
		{"F46", "the time of an answer about a group", asLong, func(t *testing.T, w *world) string {
			return w.timed(t, callsByGroup[3], "web", "wob")
		}},
	}
}

// timed makes a call about either name by turns and compares the medians. Whatever else
// the box does hits both alike, so only one that is twice the other, three times in a row, is
// another path in the server: a read from storage, or a question to the provider, is more.
func (w *world) timed(t *testing.T, p probe, foreign, unknown string) string {
	t.Helper()
	c := w.operator(t, attacker)
	medians := func() (a, b time.Duration) {
		var took [2][]time.Duration
		for range 250 {
			for i, name := range []string{foreign, unknown} {
				start := time.Now()
				_, _ = p.call(call(t), c, name) // how long it takes is asked, not what it says
				took[i] = append(took[i], time.Since(start))
			}
		}
		for i := range took {
			slices.Sort(took[i])
		}
		return took[0][len(took[0])/2], took[1][len(took[1])/2]
	}
	var seen string
	for range 3 {
		a, b := medians()
		if a < 2*b && b < 2*a {
			return asLong
		}
		seen += fmt.Sprintf("%v about another tenant's, %v about nobody's\n", a, b)
	}
	return seen
}
