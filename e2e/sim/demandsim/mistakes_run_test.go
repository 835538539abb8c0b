//go:build mistakes

package demandsim_test

import (
	"testing"
	"time"

	"nstance.dev/e2e/sim/mistaken"
)

// TestMistakesAreFound runs seeds and stories over each mistake until one finds a broken promise. The
// seeds are of mode safety: rest takes some worlds longer than they are given.
func TestMistakesAreFound(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			_, says := mistaken.Find(t, "../../..", m.edits, 4*time.Minute, "TestDemandSim$|TestStories$|TestE", "-first=1001", "-seeds=400", "-mode=safety")
			t.Log(says)
		})
	}
}
