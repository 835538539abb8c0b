package sim_test

import (
	"flag"
	"fmt"
	"testing"

	"nstance.dev/e2e/sim"
)

var (
	holdSeeds = flag.Int("hold-seeds", 4, "how many seeds have holds and power cycles")
	holdFirst = flag.Uint64("hold-first", 1, "the first of them")
)

// TestM84_M85_Holds runs the plans of seeds with holds and power cycles, and demands that every
// promise is kept. A plan that breaks one is in the output, to be made a scenario of.
func TestM84_M85_Holds(t *testing.T) {
	for n := range *holdSeeds {
		seed := *holdFirst + uint64(n)
		mode := []string{"safety", "liveness"}[seed%2]
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := sim.GenerateHolds(seed, mode)
			res := search.Play(t, p)
			for _, v := range res.Violations {
				t.Errorf("%s", v)
			}
			if t.Failed() {
				t.Logf("\n%s", p)
			}
		})
	}
}
