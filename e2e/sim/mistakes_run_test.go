//go:build mistakes

package sim_test

import (
	"testing"
	"time"

	"nstance.dev/e2e/sim/mistaken"
)

// TestMistakesAreFound runs scenarios, then seeds with holds, and then all seeds over each mistake until a promise is
// found broken.
func TestMistakesAreFound(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			t.Log(mistaken.Find(t, "../..", m.edits, 4*time.Minute,
				mistaken.Run{Tests: "TestScenarios$"},
				mistaken.Run{Tests: "TestM84_M85_Holds$", Flags: []string{"-hold-seeds=40"}},
				mistaken.Run{Tests: "TestSim$", Flags: []string{"-first=1001", "-seeds=400"}}))
		})
	}
}
