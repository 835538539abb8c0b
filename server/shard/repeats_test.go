package shard

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"nstance.dev/server/fleet"
)

// TestAPassThatRepeatsItselfWaits: actions that are carried out and show nowhere are decided
// again. The pauses between double up to a minute, whatever wakes the group up meanwhile; and
// what changes anything ends them.
func TestAPassThatRepeatsItselfWaits(t *testing.T) {
	registry := prometheus.NewRegistry()
	inWorld(t, worldOptions{Repeats: true, registry: registry}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		w.converged(1)
		r := w.term().reconciler
		var tries atomic.Int64
		var mended atomic.Bool
		r.act = func(ctx context.Context, group fleet.GroupID, action fleet.Action) error {
			if mended.Load() {
				return r.apply(ctx, group, action)
			}
			defer r.instances.PendingRemovals.Done(group, action.(fleet.Condemn).ID)
			if tries.Add(1) > 1000 {
				return errors.New("a busy loop") // which without this leaves the clock no time to move
			}
			return nil
		}
		w.scale(web, 0)
		for range 600 {
			r.queue.Enqueue(web)
			w.settle(time.Second)
		}
		// Pauses of 0.1 s, 0.2 s … 51.2 s are over after 102 s, the others last a minute.
		carriedOut := int(tries.Load())
		if carriedOut < 15 || carriedOut > 25 {
			t.Errorf("carried out %d times in ten minutes, want about 20", carriedOut)
		}
		said := strings.Count(w.logs.String(), "reconcile made no progress; backing off")
		if said < carriedOut-1 || said > carriedOut {
			t.Errorf("%d repeats were logged, of %d", said, carriedOut)
		}
		if n := testutil.ToFloat64(r.opts.Metrics.repeats); int(n) != said {
			t.Errorf("%v repeats were counted, and %d logged", n, said)
		}
		mended.Store(true)
		w.settle(10 * time.Minute)
		w.converged(0)
	})
}

// TestCreatesDoNotWaitWithARepeat: while a removal that shows nowhere is decided again and again, a
// group that is made larger gets its machines at once.
func TestCreatesDoNotWaitWithARepeat(t *testing.T) {
	inWorld(t, worldOptions{Repeats: true}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		w.converged(1)
		r := w.term().reconciler
		r.act = func(ctx context.Context, group fleet.GroupID, action fleet.Action) error {
			if condemn, ok := action.(fleet.Condemn); ok {
				r.instances.PendingRemovals.Done(group, condemn.ID)
				return nil
			}
			return r.apply(ctx, group, action)
		}
		w.machine(w.members(web)[0].ID).silence()
		w.settle(20 * time.Minute) // its replacement runs, and the pauses have grown
		for size := 2; size < 6; size++ {
			before := len(w.vms(web))
			w.scale(web, size)
			w.settle(time.Second)
			if n := len(w.vms(web)) - before; n != 1 {
				t.Errorf("%d machines are made for size %d in the first second, want 1", n, size)
			}
			w.settle(7 * time.Minute)
		}
		if !strings.Contains(w.logs.String(), "reconcile made no progress; backing off") {
			t.Error("no pass was a repeat")
		}
	})
}

func TestFingerprints(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	a, b := fleet.Instance{ID: "a", State: fleet.Running}, fleet.Instance{ID: "b", State: fleet.Running}
	condemn := fleet.Condemn{ID: "a", Reason: fleet.ReasonScaleDown, DeleteAt: now, Why: "one too many"}
	later, other, sick := condemn, condemn, a
	later.DeleteAt, later.Why = now.Add(time.Second), "one too many for 1s"
	other.ID = "b"
	sick.State = fleet.Unhealthy
	of := func(fence bool, action fleet.Action, instances ...fleet.Instance) fingerprint {
		return fingerprintOf(instances, []fleet.Action{action}, fence)
	}
	want := of(false, condemn, a, b)
	for name, c := range map[string]struct {
		got  fingerprint
		same bool
	}{
		"the same":              {of(false, condemn, a, b), true},
		"in another order":      {of(false, condemn, b, a), true},
		"a moment later":        {of(false, later, a, b), true},
		"of another instance":   {of(false, other, a, b), false},
		"another instance":      {of(false, condemn, a), false},
		"one in another state":  {of(false, condemn, sick, b), false},
		"behind a fence":        {of(true, condemn, a, b), false},
		"another action":        {of(false, fleet.Delete{ID: "a", Reason: fleet.ReasonScaleDown}, a, b), false},
		"nothing to be done":    {fingerprintOf([]fleet.Instance{a, b}, nil, false), false},
		"one more of the same":  {fingerprintOf([]fleet.Instance{a, b}, []fleet.Action{condemn, condemn}, false), false},
		"a replacement instead": {of(false, fleet.Create{Replaces: "a"}, a, b), false},
		"a create beside it":    {fingerprintOf([]fleet.Instance{a, b}, []fleet.Action{fleet.Create{}, condemn}, false), true},
	} {
		if (c.got == want) != c.same {
			t.Errorf("%s: same is %t, want %t", name, c.got == want, c.same)
		}
	}
	if got := of(false, fleet.Create{}, a, b); got != 0 {
		t.Errorf("creates alone have the fingerprint %d, want none", got)
	}
}

func TestRepeats(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	var r repeats
	if got := r.wait(web, 1, now); got != 0 {
		t.Errorf("the first pass waits for %v", got)
	}
	for _, ms := range []int{100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000, 60000} {
		r.done(web, 1, now)
		want := time.Duration(ms) * time.Millisecond
		if got := r.wait(web, 1, now); got != want {
			t.Errorf("a repeat waits for %v, want %v", got, want)
		}
		if !r.isNews(web) || r.isNews(web) {
			t.Error("each repeat is news once")
		}
		if got := r.wait(web, 2, now); got != 0 {
			t.Errorf("another pass waits for %v", got)
		}
		now = now.Add(want)
		if got := r.wait(web, 1, now); got != 0 {
			t.Errorf("after its pause it waits for %v more", got)
		}
	}
	r.done(web, 0, now)
	if got := r.wait(web, 1, now); got != 0 || len(r.last) != 0 {
		t.Errorf("after a pass that did nothing it waits for %v, and %d groups are kept", got, len(r.last))
	}
	r.done(web, 1, now)
	if got := r.wait(web, 1, now); got != shortestRepeatPause {
		t.Errorf("the pauses begin again with %v", got)
	}
}
