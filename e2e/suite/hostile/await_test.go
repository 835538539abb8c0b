package hostile

import (
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
)

// await waits for something that must come to be, with a row's own patience.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for start, pause := time.Now(), 2*time.Millisecond; !is(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Since(start) > box.Patience/3 {
			t.Fatalf("not within %v: %s", box.Patience/3, what)
		}
		time.Sleep(pause)
	}
}
