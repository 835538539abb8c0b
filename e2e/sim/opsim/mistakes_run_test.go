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
			promise, says := mistaken.Find(t, "../../..", m.edits, 5*time.Minute, "^"+m.story+"$")
			if promise != m.promise {
				t.Fatalf("found: %s; want %s", says, m.promise)
			}
			t.Log(says)
		})
	}
}
