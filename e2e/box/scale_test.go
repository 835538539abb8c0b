package box_test

import (
	"testing"
	"time"
)

// many is a size at which anything that is done one after another, or kept by
// mistake, shows.
const many = "200"

func TestS4_ScaleUpAndBackToNothingLeavesNothing(t *testing.T) {
	b, _ := up(t, 0)
	peak := b.Peak()
	start := time.Now()
	b.AdminOK("group", "scale", "web", many, "--wait", "--timeout", "60s")
	t.Logf("measured: scale to %s after %v", many, time.Since(start).Round(time.Millisecond))
	if err := b.Settled("web", 200, time.Time{}); err != nil {
		t.Errorf("scale --wait came back too early: %v", err)
	}

	start = time.Now()
	b.AdminOK("group", "scale", "web", "0", "--wait", "--timeout", "60s")
	t.Logf("measured: back to nothing after %v", time.Since(start).Round(time.Millisecond))
	if left := b.Machines(); len(left) > 0 {
		t.Errorf("scale --wait came back with %d processes left", len(left))
	}
	b.Within(5*time.Second, "no record is left", func() error { return b.Settled("web", 0, time.Time{}) })
	if most := peak(); most > 200 {
		t.Errorf("%d processes at a time, and must be 200 at most", most)
	}
}
