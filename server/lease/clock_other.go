//go:build !linux

package lease

import "time"

var started = time.Now()

// bootTime returns the time since the process started, by the monotonic clock:
// it may stand still while the box is suspended.
func bootTime() time.Duration { return time.Since(started) }
