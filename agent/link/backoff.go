package link

import (
	"context"
	"math"
	"time"
)

// Reconnect returns the pause before the next attempt to open a stream.
//
// failures counts the attempts that have failed since the last stream that held, from 1;
// absent is how long there has been none; random is in [0, 1). The pause is anything up to
// a window of 1s that grows by 1.6 to 10s, so that ten thousand agents come back spread
// out, and all within 30s of a new leader. After five minutes the window grows on to 60s.
func Reconnect(failures int, absent time.Duration, random float64) time.Duration {
	most := 10 * time.Second
	if absent >= 5*time.Minute {
		most = time.Minute
	}
	return time.Duration(random * float64(window(time.Second, 1.6, most, failures)))
}

// Enrol returns the pause before the next attempt to register: quick at first, because a
// machine that boots with its server waits for nothing else, then up to 30s. failures
// counts from 1, random is in [0, 1).
func Enrol(failures int, random float64) time.Duration {
	w := window(250*time.Millisecond, 2, 30*time.Second, failures)
	return w/2 + time.Duration(random*float64(w/2))
}

// window returns first × factor^(failures-1), at most most.
func window(first time.Duration, factor float64, most time.Duration, failures int) time.Duration {
	w := float64(first) * math.Pow(factor, float64(max(failures, 1)-1))
	return time.Duration(min(w, float64(most)))
}

// Sleep waits for d, or until ctx ends; then it returns the reason.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
