package lease

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime returns the time since the box booted. Unlike the clock behind the
// time package it goes on while the box is suspended, as other servers' do.
func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("lease: this kernel has no CLOCK_BOOTTIME: " + err.Error()) // it has since Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}
