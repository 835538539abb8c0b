package shard

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A call of the API may find something to be done while its term ends.
func TestS2_NoTaskBeginsAfterTheEndOfATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var term tasks
		var over, late atomic.Bool
		term.Go(func() { time.Sleep(time.Second) })
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				for range 100 {
					time.Sleep(20 * time.Millisecond)
					term.Go(func() {
						if over.Load() {
							late.Store(true)
						}
					})
				}
			})
		}
		term.Wait()
		over.Store(true)
		calls.Wait()
		synctest.Wait()
		if late.Load() {
			t.Error("a task ran after all had been waited for")
		}
	})
}
