//go:build mistakes && !race

package opsim_test

import (
	"testing"
	"time"

	"nstance.dev/e2e/sim/mistaken"
)

// TestMistakesAreFound tells a story over each mistake until a promise is found broken: the
// one that the mistake breaks, and not just any.
func TestMistakesAreFound(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			found := mistaken.Find(t, "../../..", m.edits, 5*time.Minute, mistaken.Run{Tests: "^" + m.story + "$"})
			if found.Promise != m.promise {
				t.Fatalf("%s; want %s", found, m.promise)
			}
			t.Log(found)
		})
	}
}
