package pavesim_test

import (
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/pavesim"
	"nstance.dev/e2e/sim/seeds"
)

var search = seeds.New(seeds.Options{
	Test: "./e2e/sim/pavesim -run 'TestPaveSim$'", Seeds: 3, Shrinks: 60, Stuck: 4 * time.Minute,
	Generate: pavesim.Generate, World: pavesim.Run,
})

// TestPaveSim runs the plans of many seeds, and demands that every promise is kept.
func TestPaveSim(t *testing.T) { search.Run(t) }

// shown is how much of a story's history is shown that breaks a promise.
const shown = 60

func play(t *testing.T, text string) sim.Result {
	t.Helper()
	p, err := pavesim.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	res := search.Play(t, p)
	for _, v := range res.Violations {
		t.Errorf("%s\nof the plan\n%s", v, p)
	}
	if t.Failed() {
		t.Logf("it ended with\n%s", strings.Join(res.History[max(0, len(res.History)-shown):], "\n"))
	}
	return res
}

// TestSeedsRepeat: a seed says everything of a run.
func TestSeedsRepeat(t *testing.T) { search.Repeats(t, 2, 1, 4, 1) }
