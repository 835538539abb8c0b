package demandloop

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestNoWorkerWaitsForTheLoop: the loop waits for its workers when it ends, and takes no result in meanwhile.
func TestNoWorkerWaitsForTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newWorkerPool(1)
		ctx, cancel := context.WithCancel(t.Context())
		over, steps := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			c.run(ctx, 1)
		}()
		one := job{run: func(context.Context) error { <-steps; return nil }, done: func(error) {}}
		fill := func() {
			for c.offer(one) {
				synctest.Wait()
			}
		}
		fill()
		for range jobQueue/2 - 1 { // results that the loop has no time for
			steps <- struct{}{}
		}
		synctest.Wait()
		fill()
		close(steps)
		synctest.Wait()
		cancel()
		<-over
	})
}
