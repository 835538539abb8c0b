package locks

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// As many have a name's turn as may, who waits gets it when one gives it back, and other
// names are free all the while.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := ByName{Width: 2}
		take := func(name string) func() {
			t.Helper()
			leave, err := locks.Take(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			return leave
		}
		first, second, other := take("a"), take("a"), take("b")
		got := false
		go func() {
			leave := take("a")
			got = true
			leave()
		}()
		if synctest.Wait(); got {
			t.Fatal("three have the turn of one name, want two")
		}
		first()
		if synctest.Wait(); !got {
			t.Error("the turn was given back, and who waits does not get it")
		}
		second()
		other()
		if len(locks.held) != 0 {
			t.Errorf("%d names are remembered that nobody holds", len(locks.held))
		}
	})
}

func TestTurnIsWaitedForNoLongerThanTheContextLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks ByName
		leave, err := locks.Take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := locks.Take(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second: %v, want %v", err, context.DeadlineExceeded)
		}
		leave()
		if again, err := locks.Take(t.Context(), "a"); err != nil {
			t.Errorf("after the first has left: %v", err)
		} else {
			again()
		}
	})
}
