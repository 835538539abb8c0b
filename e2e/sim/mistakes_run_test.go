//go:build mistakes

package sim_test

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
const mistakeTime = 4 * time.Minute

// TestMistakesAreFound runs the simulator over each mistake until it finds a broken
// promise.
func TestMistakesAreFound(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), mistakeTime+time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, "go", "test", "-buildvcs=false", "-overlay", mistaken.Overlay(t, "../..", m.edits),
				"-timeout", mistakeTime.String(), "-run", "TestSim$|TestScenarios$", ".", "-args",
				"-first=1001", "-seeds=400", "-fail-fast").CombinedOutput()
			found := violated.FindAll(out, 1)
			if err == nil || len(found) == 0 {
				t.Fatalf("not found: %v\n%s", err, out[max(0, len(out)-4000):])
			}
			for _, line := range found {
				t.Logf("%s", line)
			}
		})
	}
}
