package shard

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// What two have decided to end counts as ending until both are done, for the reason of the
// first one, and in its own group alone.
func TestS6_EndingsLastUntilEverybodyIsDone(t *testing.T) {
	var e endings
	want := func(group fleet.GroupID, reasons map[identity.ID]fleet.Reason) {
		t.Helper()
		if got := e.of(group); !maps.Equal(got, reasons) {
			t.Errorf("of %s: %v, want %v", group, got, reasons)
		}
	}
	want(web, nil)
	e.begin(web, "a", fleet.ReasonScaleDown)
	e.begin(web, "a", fleet.ReasonAbandoned)
	e.begin(web, "b", fleet.ReasonAbandoned)
	want(other, nil)
	e.done(web, "a")
	want(web, map[identity.ID]fleet.Reason{"a": fleet.ReasonScaleDown, "b": fleet.ReasonAbandoned})
	e.done(web, "a")
	e.done(web, "b")
	want(web, nil)
	if len(e.byGroup) > 0 {
		t.Errorf("it keeps %d groups in which nothing ends", len(e.byGroup))
	}
}

// Two that decide about one group do so one after the other; who decides about another
// group waits for neither.
func TestS6_OneDecidesAtATimeInAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e endings
		begun := time.Now()
		var ended [3]time.Duration
		for i, group := range []fleet.GroupID{web, web, other} {
			go func() {
				if err := e.decide(t.Context(), group, func() { time.Sleep(time.Second) }); err != nil {
					t.Error(err)
				}
				ended[i] = time.Since(begun)
			}()
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if max(ended[0], ended[1]) != 2*time.Second || ended[2] != time.Second {
			t.Errorf("they had decided after %v, want one of the first two and the third after 1s, and the other after 2s", ended)
		}
	})
}

func TestS6_NobodyDecidesWithoutATurn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var e endings
	if err := e.decide(ctx, web, func() {
		cancel()
		if err := e.decide(ctx, web, func() { t.Error("two decided at once") }); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	}); err != nil {
		t.Error(err)
	}
}

// TestS6_F13_ALateCondemnationOfTheLastLeader: it lands after its leader's end, when the next
// one has chosen another machine for the same size.
func TestS6_F13_ALateCondemnationOfTheLastLeader(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(time.Minute)
		sent := 0
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			rec, err := bucket.DecodeInstanceRecord(c.Key, c.Data)
			if c.Op != memory.OpPut || err != nil || rec.Deletion == nil {
				return memory.Fault{}
			}
			if sent++; sent > 1 {
				return memory.Fault{Before: objectstore.ErrUnavailable}
			}
			return memory.Fault{Late: 20 * time.Second}
		})
		w.scale(web, 2)
		w.settle(100 * time.Millisecond)
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		if sent == 0 {
			t.Fatal("nothing was condemned")
		}
		w.store.SetFaults(nil)
		w.cloud.Kill(w.vms(web)[2].InstanceID) // the next leader's choice
		w.lead()
		for range 120 {
			w.settle(time.Second)
			left := 0
			for _, rec := range w.records() {
				if rec.Deletion == nil {
					left++
				}
			}
			if left < 2 {
				t.Fatalf("%d machines are left, want 2", left)
			}
		}
		w.converged(2)
	})
}
