package instances

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
)

func TestLedgerLetsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(time.Now)
		first, err := l.take(t.Context(), testID)
		if err != nil {
			t.Fatal(err)
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.take(impatient, testID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second turn at the same time: %v", err)
		}
		if done, err := l.take(t.Context(), "knc06bgm7733st2576nx5jht4ecjw"); err != nil {
			t.Errorf("another machine's turn: %v", err)
		} else {
			done()
		}
		waited := make(chan error)
		go func() {
			done, err := l.take(t.Context(), testID)
			if err == nil {
				done()
			}
			waited <- err
		}()
		synctest.Wait()
		first()
		if err := <-waited; err != nil {
			t.Errorf("the turn after the first one: %v", err)
		}
	})
}

func TestLedgerForgets(t *testing.T) {
	now := time.Unix(0, 0)
	l := newLedger(func() time.Time { return now })
	note := func(id identity.ID, change func()) {
		done, err := l.take(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		change()
	}
	const other = identity.ID("knc06bgm7733st2576nx5jht4ecjw")
	note(testID, func() { l.made(testID, "i-1"); l.end(testID) })
	if made, ended := l.look(testID); made != "i-1" || !ended || !l.fresh(testID) {
		t.Errorf("noted: %q, %v, fresh %v", made, ended, l.fresh(testID))
	}
	now = now.Add(Lag)
	note(testID, func() { l.made(testID, "i-1") })
	if l.fresh(testID) {
		t.Error("a repeated create makes the machine young again")
	}
	now = now.Add(retention)
	note(other, func() {})
	if _, ended := l.look(testID); !ended {
		t.Error("forgotten too early")
	}
	now = now.Add(time.Minute)
	note(other, func() {})
	if made, ended := l.look(testID); made != "" || ended {
		t.Errorf("kept for ever: %q, %v", made, ended)
	}
}

func TestS22_LedgerIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	l := newLedger(func() time.Time { return now })
	for i := range 10_000 {
		now = now.Add(time.Second)
		done, err := l.take(t.Context(), identity.ID(fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		done()
	}
	if n, most := len(l.notes), int((retention+2*time.Minute)/time.Second); n > most {
		t.Errorf("%d notes are kept after a create a second, want at most %d", n, most)
	}
}
