package sim_test

import (
	"runtime/debug"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/seeds"
)

var search = seeds.New(seeds.Options{
	Test: "./e2e/sim -run 'TestSim$'", Seeds: 6, Shrinks: 150, Stuck: 4 * time.Minute, Generate: sim.Generate,
})

// TestMain lets the heap grow: a world is small and makes much garbage, and a third
// of the time would be spent on collecting it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}

// TestSim runs the plans of many seeds, and demands that every promise is kept.
func TestSim(t *testing.T) { search.Run(t) }
