//go:build mistakes

package sim_test

import (
	"testing"
	"time"

	"nstance.dev/e2e/sim/mistaken"
)

// TestMistakesAreFound runs the simulator over each mistake until it finds a broken
// promise.
func TestMistakesAreFound(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			_, says := mistaken.Find(t, "../..", m.edits, 4*time.Minute, "TestSim$|TestScenarios$", "-first=1001", "-seeds=400")
			t.Log(says)
		})
	}
}
