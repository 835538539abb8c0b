//go:build behaviour

package sim_test

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/seeds"
)

var (
	recordTo    = flag.String("record", "", "record what the plans do in `DIR`")
	compareWith = flag.String("compare", "", "compare what the plans do with what is recorded in `DIR`")
)

// recordedSeeds is how many seeds are played besides all scenarios.
const recordedSeeds = 50

// TestBehaviour records what the first seeds and all scenarios do, or demands that they do
// what was recorded. It needs one of the two flags.
func TestBehaviour(t *testing.T) {
	if (*recordTo == "") == (*compareWith == "") {
		t.Fatal("give either -record DIR or -compare DIR")
	}
	plans := search.Seeds(recordedSeeds)
	for _, s := range scenarios {
		p, err := sim.Parse(s.plan)
		if err != nil {
			t.Fatal(err)
		}
		plans["scenario "+s.name] = p
	}
	for _, name := range slices.Sorted(maps.Keys(plans)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if *recordTo != "" {
				seeds.Behaviour(*recordTo).Record(t, search, name, plans[name])
			} else {
				seeds.Behaviour(*compareWith).Compare(t, search, name, plans[name])
			}
		})
	}
}
