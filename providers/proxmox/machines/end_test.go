package machines

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestNextEnding(t *testing.T) {
	for _, c := range []struct {
		status, lock string
		asked        bool
		want         ending
	}{
		{"running", "", false, endAsk},
		{"running", "", true, endStop},
		{"paused", "", false, endAsk},
		{"paused", "", true, endStop},
		{"stopped", "", false, endRemove},
		{"stopped", "", true, endRemove},
		{"stopped", "suspended", false, endRemove}, // its memory is on disk
		{"running", "backup", false, endWait},
		{"stopped", "clone", true, endWait},
		{"stopped", "destroyed", false, endNone},
		{"running", "destroyed", true, endNone},
	} {
		if got := nextEnding(c.status, c.lock, c.asked); got != c.want {
			t.Errorf("status %q, lock %q, asked %t: %d, want %d", c.status, c.lock, c.asked, got, c.want)
		}
	}
}

// The system of a machine gets half of the time that the call has, so that there is some left
// to switch it off and destroy it.
func TestGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got := graceOf(t.Context(), time.Now()); got != longestGrace {
			t.Errorf("without a limit %v, want %v", got, longestGrace)
		}
		for limit, want := range map[time.Duration]time.Duration{
			time.Hour: longestGrace, 20 * time.Second: 10 * time.Second, 3 * time.Second: time.Second, time.Second: 0,
		} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			if got := graceOf(ctx, time.Now()); got != want {
				t.Errorf("of %v: %v, want %v", limit, got, want)
			}
			cancel()
		}
	})
}
