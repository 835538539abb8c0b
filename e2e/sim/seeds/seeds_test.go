package seeds

import (
	"testing"
	"time"

	"nstance.dev/e2e/sim"
)

func TestTally(t *testing.T) {
	var total tally
	total.add(sim.Result{Events: 100, Made: 3, Fired: map[string]int{"net-lost": 2}})
	total.add(sim.Result{Events: 201, Made: 4, Fired: map[string]int{"net-lost": 1, "api-busy": 5}})
	want := "2 seeds, 301 events (150 a seed), 7 machines, 0.50 seeds/s, 75 events/s\n" +
		"  api-busy                 5\n" +
		"  net-lost                 3"
	if got := total.report(4 * time.Second); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
