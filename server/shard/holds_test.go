package shard

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

// hold puts an instance on hold for a while.
func (w *world) hold(id identity.ID, reason fleet.HoldReason, span time.Duration) fleet.Hold {
	w.t.Helper()
	row, _ := w.term().planner.cache.Instance(id)
	got, err := w.term().Holds().Set(w.ctx, row, reason, time.Now().Add(span))
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func (w *world) unhold(id identity.ID) {
	w.t.Helper()
	row, _ := w.term().planner.cache.Instance(id)
	if err := w.term().Holds().Clear(w.ctx, row, ""); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) status(id identity.ID) string {
	w.t.Helper()
	in, err := w.term().Status().GetInstance("default", id.String())
	if err != nil {
		w.t.Fatal(err)
	}
	return in.Status
}

// rebooting is what the shard sees of a host that reboots: its agent is silent, its VM runs.
func (w *world) rebooting(id identity.ID) { w.machine(id).off() }

// switchedOff is what it sees of one that somebody has switched off.
func (w *world) switchedOff(id identity.ID) {
	w.machine(id).off()
	w.cloud.SetStatus(id, driver.Stopped)
}

// TestM84_WhatIsOnHoldIsNotReplaced: neither when it is silent nor when it is off, nor by the next
// leader, until the hold ends. Without one it is.
func TestM84_WhatIsOnHoldIsNotReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		reason fleet.HoldReason
		span   time.Duration
		does   func(*world, identity.ID)
		shows  string
	}{
		"a reboot":     {fleet.HoldReboot, 15 * time.Minute, (*world).rebooting, "running"},
		"a repave":     {fleet.HoldRepave, 45 * time.Minute, (*world).rebooting, "running"},
		"switched off": {fleet.HoldPower, 2 * time.Hour, (*world).switchedOff, "powered-off"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
				w.scale(web, 3)
				w.settle(time.Minute)
				id := w.members(web)[1].ID
				w.hold(id, c.reason, c.span)
				c.does(w, id)
				w.settle(c.span / 3)
				w.stop() // the hold outlives its leader
				w.lead()
				w.settle(c.span / 3)
				if made, shows := w.cloud.Created(), w.status(id); made != 3 || shows != c.shows {
					t.Fatalf("%d machines were made under the hold, and it is %s; want 3 and %s", made, shows, c.shows)
				}
				w.settle(c.span/3 + 5*time.Minute)
				if _, there := w.cloud.Machine(id); there || w.cloud.Created() != 4 {
					t.Errorf("%d machines were made when the hold had ended, want 4, and the old one is there: %v", w.cloud.Created(), there)
				}
				w.converged(3)
			})
		})
		t.Run(name+" without a hold", func(t *testing.T) {
			inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
				w.scale(web, 3)
				w.settle(time.Minute)
				c.does(w, w.members(web)[1].ID)
				w.settle(5 * time.Minute)
				if made := w.cloud.Created(); made != 4 {
					t.Errorf("%d machines were made, want 4: the test shows nothing", made)
				}
			})
		})
	}
}

// TestM85_SwitchedOnAgain: a machine that runs again when its hold is cleared stays, though the
// provider was last seen to show it stopped.
func TestM85_SwitchedOnAgain(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(time.Minute)
		id := w.members(web)[1].ID
		w.hold(id, fleet.HoldPower, 2*time.Hour)
		w.switchedOff(id)
		w.settle(time.Hour)
		w.cloud.SetStatus(id, driver.Running)
		w.settle(10 * time.Second)
		w.unhold(id)
		w.settle(10 * time.Minute)
		if made, shows := w.cloud.Created(), w.status(id); made != 3 || shows != "running" {
			t.Errorf("%d machines were made, and it is %s; want 3 and running", made, shows)
		}
		w.converged(3)
	})
}

// TestM84_MoreThanHalfOnHold: silence on purpose is no sign that the server is cut off, so others
// that fall silent meanwhile are replaced.
func TestM84_MoreThanHalfOnHold(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 10)
		w.settle(time.Minute)
		for _, in := range w.members(web)[:7] {
			w.hold(in.ID, fleet.HoldReboot, 15*time.Minute)
			w.rebooting(in.ID)
		}
		w.rebooting(w.members(web)[9].ID)
		w.settle(5 * time.Minute)
		if made := w.cloud.Created(); made != 11 {
			t.Errorf("%d machines were made, want 11", made)
		}
	})
}

// TestM84_WhatWinsOverAHold: a caller's delete, and a VM that does not exist any more.
func TestM84_WhatWinsOverAHold(t *testing.T) {
	for name, does := range map[string]func(*testing.T, *world, identity.ID){
		"a delete": func(t *testing.T, w *world, id identity.ID) {
			if _, err := w.term().Requests().DeleteInstance(w.ctx, "default", RemovalRequest{ID: id.String()}); err != nil {
				t.Fatal(err)
			}
		},
		"a VM that is gone": func(_ *testing.T, w *world, id identity.ID) { w.cloud.Remove(id) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
				w.scale(web, 3)
				w.settle(time.Minute)
				id := w.members(web)[1].ID
				w.hold(id, fleet.HoldPower, 2*time.Hour)
				does(t, w, id)
				w.settle(5 * time.Minute)
				if _, there := w.cloud.Machine(id); there {
					t.Error("it is there still")
				}
				w.converged(3)
			})
		})
	}
}

// TestHoldsAreRefused: with a reason that callers act on.
func TestHoldsAreRefused(t *testing.T) {
	inWorld(t, worldOptions{DeadAgents: true, Timeout: "10m"}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		row := w.members(web)[0]
		set := func(reason fleet.HoldReason, until time.Duration) error {
			_, err := w.term().Holds().Set(w.ctx, row, reason, time.Now().Add(until))
			return err
		}
		for _, c := range []struct {
			what, reason string
			err          error
		}{
			{"no such reason", "INVALID_HOLD", set("nap", time.Hour)},
			{"over already", "INVALID_HOLD", set(fleet.HoldPower, 0)},
			{"before its agent registers", "NOT_REGISTERED", set(fleet.HoldPower, time.Hour)},
			{"cleared for no such reason", "INVALID_HOLD", w.term().Holds().Clear(w.ctx, row, "nap")},
		} {
			var refused *refusal.Error
			if !errors.As(c.err, &refused) || refused.Reason != c.reason {
				t.Errorf("%s: %v, want %s", c.what, c.err, c.reason)
			}
		}
		if err := w.term().Holds().Clear(w.ctx, row, ""); err != nil {
			t.Errorf("clear where there is none: %v", err)
		}
	})
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		row := w.members(web)[0]
		first := w.hold(row.ID, fleet.HoldPower, time.Hour)
		_, err := w.term().Holds().Set(w.ctx, row, fleet.HoldReboot, time.Time{})
		var refused *refusal.Error
		if !errors.As(err, &refused) || refused.Reason != "ON_HOLD" || refused.Code != refusal.FailedPrecondition {
			t.Errorf("a weaker hold: %v", err)
		}
		if again := w.hold(row.ID, fleet.HoldPower, 100*time.Hour); !again.Since.Equal(first.Since) || !again.Until.Equal(first.Since.Add(24*time.Hour)) {
			t.Errorf("renewed from %+v to %+v, want 24h from its beginning", first, again)
		}
		before := w.records()[0]
		w.hold(row.ID, fleet.HoldPower, 100*time.Hour)
		if after := w.records()[0]; *after.Hold != *before.Hold {
			t.Errorf("the record says %+v, and said %+v", after.Hold, before.Hold)
		}
	})
}

// TestM70_OneBudgetWithRollouts: while the node machine of an instance is about to be built, no other one of its group goes
// for its age or configuration, also where its replacement is there already; and while one goes, no rollout begins
// another one.
func TestM70_OneBudgetWithRollouts(t *testing.T) {
	opts, guarded := sized(3, worldOptions{Cloud: drivertest.Options{Conditions: drivertest.Conditions{BootTime: 20 * time.Second, Latency: 2 * time.Second}}})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, opts)
		*guarded = w
		defer w.close()
		w.lead()
		w.scale(web, 3)
		w.settle(time.Minute)
		oldest, other := w.members(web)[0].ID, w.members(web)[1].ID
		w.hold(other, fleet.HoldRollout, 10*time.Minute)
		w.reconfigure(large(opts))
		w.settle(5 * time.Minute)
		w.wantTypes("small", "small", "small")

		w.unhold(other)
		w.settle(15 * time.Second)
		w.wantTypes("large", "small", "small", "small") // a replacement boots
		w.hold(other, fleet.HoldRollout, 10*time.Minute)
		w.settle(5 * time.Minute)
		w.wantTypes("large", "small", "small", "small")
		if in, ok := w.term().planner.cache.Instance(oldest); !ok || in.State.Leaving() {
			t.Errorf("the one that is replaced is %v while another one is on hold", in.State)
		}

		w.unhold(other)
		refused := 0
		for range 1200 {
			w.settle(500 * time.Millisecond)
			leaving := ""
			for _, in := range w.members(web) {
				if vm, runs := w.cloud.Machine(in.ID); runs && vm.Status == driver.Running && in.State.Leaving() {
					leaving = in.ID.String()
				}
			}
			if leaving == "" {
				continue
			}
			for _, in := range w.members(web) {
				if in.State.Leaving() || in.RegisteredAt.IsZero() {
					continue
				}
				var no *refusal.Error
				if _, err := w.term().Holds().Set(w.ctx, in, fleet.HoldRollout, time.Time{}); !errors.As(err, &no) || no.Reason != "GROUP_ROTATING" {
					t.Fatalf("a rollout begins %s while %s leaves: %v", in.ID, leaving, err)
				}
				if now, _ := w.term().planner.cache.Instance(in.ID); now.Hold.InForce(time.Now()) {
					t.Fatalf("%s is on hold though that was refused", in.ID)
				}
				if _, err := w.term().Holds().Set(w.ctx, in, fleet.HoldRepave, time.Time{}); err != nil {
					t.Fatalf("a repave that somebody asked for waits: %v", err)
				}
				w.unhold(in.ID)
				refused++
			}
		}
		if refused == 0 {
			t.Error("nobody was seen to leave: the test shows nothing")
		}
		w.wantTypes("large", "large", "large")
	})
}

// TestM85_OnHoldAgainAndAgain: an instance that stays silent is not kept by holds that are cleared and set again.
func TestM85_OnHoldAgainAndAgain(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		id := w.members(web)[0].ID
		w.hold(id, fleet.HoldReboot, 5*time.Minute)
		w.rebooting(id)
		began := time.Now()
		var last error
		for time.Since(began) < time.Hour {
			w.settle(time.Minute)
			row, known := w.term().planner.cache.Instance(id)
			if !known || row.State.Leaving() || row.State == fleet.Deleted {
				break
			}
			w.unhold(id)
			if _, last = w.term().Holds().Set(w.ctx, row, fleet.HoldReboot, time.Time{}); last != nil && time.Since(began) < 14*time.Minute {
				t.Fatalf("refused after %v: %v", time.Since(began), last)
			}
		}
		if gone := time.Since(began); gone < 14*time.Minute || gone > 18*time.Minute {
			t.Errorf("replaced after %v, want a quarter of an hour", gone)
		}
		var no *refusal.Error
		if !errors.As(last, &no) || no.Reason != "HOLD_EXHAUSTED" {
			t.Errorf("it says %v at the end", last)
		}
	})
}
