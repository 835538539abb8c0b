// Package retry is how loops wait: for a span of time or the end of their context, or for
// somebody who asks for a look-up.
//
// How long to wait, and what a look-up is, is the caller's decision; see the constants beside
// each loop.
package retry

import (
	"context"
	"time"
)

// Wait waits for d, or until ctx ends, which it reports as ctx's error. A span that is
// not positive ends at once.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
