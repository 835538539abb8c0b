//go:build mistakes

package demandsim_test

import (
	"testing"
	"time"

	"nstance.dev/e2e/sim/mistaken"
)

// TestMistakesAreFound runs the stories over each mistake, then the tests of single promises, and then seeds, until a
// promise is found broken. All but the seeds take seconds. These are of mode safety: rest takes some worlds longer
// than they are given.
func TestMistakesAreFound(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			t.Log(mistaken.Find(t, "../../..", m.edits, 4*time.Minute,
				mistaken.Run{Tests: "TestStories$"}, mistaken.Run{Tests: "TestE"},
				mistaken.Run{Tests: "TestDemandSim$", Flags: []string{"-first=1001", "-seeds=400", "-mode=safety"}}))
		})
	}
}
