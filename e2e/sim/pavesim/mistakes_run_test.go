//go:build mistakes

package pavesim_test

import (
	"testing"
	"time"

	"nstance.dev/e2e/sim/mistaken"
)

// TestMistakesAreFound tells stories over each mistake, then runs seeds, and then lets processes end at each write and
// step, until a promise is found broken: the one that the mistake breaks.
func TestMistakesAreFound(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			found := mistaken.Find(t, "../../..", m.edits, 10*time.Minute,
				mistaken.Run{Tests: "TestStories$"}, mistaken.Run{Tests: "TestPaveSim$", Flags: []string{"-seeds=200"}},
				mistaken.Run{Tests: "TestM[0-9]", Flags: []string{"-every"}})
			if found.Promise != m.promise {
				t.Fatalf("found %v; want %s", found, m.promise)
			}
			t.Log(found)
		})
	}
}
