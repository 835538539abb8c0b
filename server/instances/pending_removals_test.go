package instances

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

var (
	web   = fleet.GroupID{Tenant: "default", Name: "web"}
	other = fleet.GroupID{Tenant: "default", Name: "other"}
)

// What two have decided to end counts as ending until both are done, for the reason of the
// first one, and in its own group alone.
func TestS6_EndingsLastUntilEverybodyIsDone(t *testing.T) {
	var e PendingRemovals
	want := func(group fleet.GroupID, reasons map[identity.ID]fleet.Reason) {
		t.Helper()
		if got := e.of(group); !maps.Equal(got, reasons) {
			t.Errorf("of %s: %v, want %v", group, got, reasons)
		}
	}
	want(web, nil)
	e.Begin(web, "a", fleet.ReasonScaleDown)
	e.Begin(web, "a", fleet.ReasonAbandoned)
	e.Begin(web, "b", fleet.ReasonAbandoned)
	want(other, nil)
	e.Done(web, "a")
	want(web, map[identity.ID]fleet.Reason{"a": fleet.ReasonScaleDown, "b": fleet.ReasonAbandoned})
	e.Done(web, "a")
	e.Done(web, "b")
	want(web, nil)
	if len(e.byGroup) > 0 {
		t.Errorf("it keeps %d groups in which nothing ends", len(e.byGroup))
	}
}

// Two that decide about one group do so one after the other; who decides about another
// group waits for neither.
func TestS6_OneDecidesAtATimeInAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e PendingRemovals
		begun := time.Now()
		var ended [3]time.Duration
		for i, group := range []fleet.GroupID{web, web, other} {
			go func() {
				if err := e.Decide(t.Context(), group, func() { time.Sleep(time.Second) }); err != nil {
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
	var e PendingRemovals
	if err := e.Decide(ctx, web, func() {
		cancel()
		if err := e.Decide(ctx, web, func() { t.Error("two decided at once") }); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	}); err != nil {
		t.Error(err)
	}
}
