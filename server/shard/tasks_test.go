package shard

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A call of the API may find something to be done while its reign ends.
func TestS2_NoTaskBeginsAfterTheEndOfAReign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reign tasks
		var over, late atomic.Bool
		reign.Go(func() { time.Sleep(time.Second) })
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				for range 100 {
					time.Sleep(20 * time.Millisecond)
					reign.Go(func() {
						if over.Load() {
							late.Store(true)
						}
					})
				}
			})
		}
		reign.Wait()
		over.Store(true)
		calls.Wait()
		synctest.Wait()
		if late.Load() {
			t.Error("a task ran after all had been waited for")
		}
	})
}
