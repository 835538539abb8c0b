package demandsim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/demandsim"
	"nstance.dev/e2e/sim/seeds"
)

var search = seeds.New(seeds.Options{
	Test: "./e2e/sim/demandsim -run 'TestDemandSim$'", Seeds: 4, Shrinks: 200, Stuck: 4 * time.Minute,
	Generate: demandsim.Generate, Run: demandsim.Run,
})

// TestDemandSim runs the plans of many seeds, and demands that every promise is kept.
func TestDemandSim(t *testing.T) { search.Run(t) }

// TestE10_ClustersActInOneOrder: what several clusters do in one cycle, they do in the same order in every
// run.
func TestE10_ClustersActInOneOrder(t *testing.T) {
	var b strings.Builder
	b.WriteString("set clusters 3\n")
	for _, c := range []string{"cluster-a", "cluster-b", "cluster-c"} {
		fmt.Fprintf(&b, "1m set %s service api 2\n10m drop %s api\n", c, c)
	}
	want := search.Play(t, plan(t, b.String())).History
	for range 8 {
		if got := search.Play(t, plan(t, b.String())).History; !slices.Equal(got, want) {
			broken(t, "E10", "a second run of the same plan went otherwise")
		}
	}
}

// TestE10_EqualPlansHaveEqualTraces, with any number of workers.
func TestE10_EqualPlansHaveEqualTraces(t *testing.T) {
	for _, seed := range []uint64{8, 11} {
		p := demandsim.Generate(seed, "safety")
		want := demandsim.Run(p, sim.Options{}).History
		for _, workers := range []string{"4", "16"} {
			p.Settings["workers"] = workers
			if got := demandsim.Run(p, sim.Options{}).History; !slices.Equal(got, want) {
				broken(t, "E10", "seed %d with %s workers: %d events are not the %d with one", seed, workers, len(got), len(want))
			}
		}
	}
}
