//go:build mistakes

package hostsim_test

import (
	"testing"
	"time"

	"nstance.dev/e2e/sim/mistaken"
)

// TestMistakesAreFound tells stories and then runs seeds over each mistake until a promise is found
// broken: the one that the mistake breaks.
func TestMistakesAreFound(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			promise, says := mistaken.Find(t, "../../..", m.edits, 2*time.Minute, "TestStories$|TestHostSim$", "-seeds=400")
			if promise != m.promise {
				t.Fatalf("found: %s; want %s", says, m.promise)
			}
			t.Log(says)
		})
	}
}
