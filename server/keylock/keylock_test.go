package keylock

import (
	"testing"
	"testing/synctest"
)

func TestOneAtATimeHoldsTheLockOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks Locks[string]
		a, b := "a", "b"
		unlock, err := locks.Lock(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if free, err := locks.Lock(t.Context(), b); err != nil {
			t.Error("another key is locked as well")
		} else {
			free()
		}
		second := make(chan struct{})
		go func() {
			free, err := locks.Lock(t.Context(), a)
			if err == nil {
				free()
			}
			close(second)
		}()
		synctest.Wait()
		select {
		case <-second:
			t.Error("two hold the lock of one key")
		default:
		}
		unlock()
		<-second
		if len(locks.locks) > 0 {
			t.Errorf("%d locks are left that nobody holds", len(locks.locks))
		}
	})
}
