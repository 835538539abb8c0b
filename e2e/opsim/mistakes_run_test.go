//go:build mistakes && !race

package opsim_test

import (
	"context"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"nstance.dev/e2e/sim/mistaken"
)

// violated finds what a run says of a broken promise.
var violated = regexp.MustCompile(`(?m)^panic: ([SL]\d+) at .*$`)

// mistakeTime bounds the search for one mistake.
const mistakeTime = 10 * time.Minute

// TestMistakesAreFound runs stories and seeds over each mistake until a promise is found
// broken: the one that the mistake breaks, and not just any.
func TestMistakesAreFound(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), mistakeTime+time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, "go", "test", "-buildvcs=false", "-overlay", mistaken.Overlay(t, "../..", m.edits),
				"-timeout", mistakeTime.String(), "-run", "TestOpsim$|^Test[SF][0-9]", ".", "-args",
				"-first=101", "-seeds=40", "-fail-fast").CombinedOutput()
			found := violated.FindSubmatch(out)
			if err == nil || found == nil || string(found[1]) != m.promise {
				t.Fatalf("not found: %v\n%s", err, out[max(0, len(out)-4000):])
			}
			t.Logf("%s", found[0])
		})
	}
}
