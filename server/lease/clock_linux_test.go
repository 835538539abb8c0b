package lease

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestF7_DefaultClockCountsFromTheBoot: the clock that nobody has put another one in the
// place of is that of the box, which nobody sets and which goes on while the box is
// suspended (S2).
func TestF7_DefaultClockCountsFromTheBoot(t *testing.T) {
	boot := func() time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			t.Fatal(err)
		}
		return time.Duration(ts.Nano())
	}
	elapsed := Options{}.withDefaults().Elapsed
	for range 3 {
		before := boot()
		got := elapsed()
		if after := boot(); got < before || got > after {
			t.Errorf("a lease ages by %v, while the box has been up for %v to %v", got, before, after)
		}
	}
}
