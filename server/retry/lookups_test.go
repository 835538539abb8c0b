package retry

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLookupsOfOneNameFollowEachOther: others do not wait for them, and who asks twice before
// the first has begun is answered by that.
func TestLookupsOfOneNameFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLookups()
		var mu sync.Mutex
		var said []string
		say := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, what)
		}
		heard := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(said)
		}
		look := func(what string) func(context.Context) {
			return func(context.Context) {
				say(what + " begins")
				time.Sleep(time.Minute)
				say(what + " ends")
			}
		}
		l.Ask("a", look("a1"))
		l.Ask("a", look("a2"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l.Run(ctx)
		}()
		time.Sleep(30 * time.Second)
		l.Ask("a", look("a3"))
		l.Ask("b", look("b"))
		time.Sleep(5 * time.Minute)
		want := []string{"a1 begins", "b begins", "a1 ends", "a3 begins", "b ends", "a3 ends"}
		if said := heard(); !slices.Equal(said, want) {
			t.Errorf("looked up %q, want %q", said, want)
		}
		l.Ask("c", look("c"))
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("it does not wait for what is under way")
		default:
		}
		<-ended
		l.Ask("d", look("d"))
		synctest.Wait()
		if said := heard(); said[len(said)-1] != "c ends" {
			t.Errorf("the last of %q is not the end of c", said)
		}
	})
}

// TestLookupsAreMadeUnderNoLock: one may ask for another, and for itself again.
func TestLookupsAreMadeUnderNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLookups()
		times := 0
		var again func(context.Context)
		again = func(context.Context) {
			if times++; times < 3 {
				l.Ask("a", again)
			}
		}
		l.Ask("a", again)
		ctx, cancel := context.WithCancel(t.Context())
		go l.Run(ctx)
		synctest.Wait()
		if times != 3 {
			t.Errorf("looked up %d times, want 3", times)
		}
		cancel()
	})
}
