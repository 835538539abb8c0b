package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/config"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/events"
	"nstance.dev/server/fleet"
)

// reconfigure puts another configuration in force, as an edit of the file and a
// reload do; leaders to come have it as well.
func (w *world) reconfigure(opts worldOptions) {
	w.t.Helper()
	w.static = config.Version{Config: testConfig(w.t, opts), ETag: fmt.Sprint(opts)}
	if err := w.shard().Apply(w.ctx, w.static); err != nil {
		w.t.Fatal(err)
	}
}

// large is a configuration from which other machines are made.
func large(opts worldOptions) worldOptions {
	opts.Type = `"large"`
	return opts
}

// sized returns the options of a world that checks, at every call of the provider,
// that a rotation of a group keeps its size: no delete leaves fewer registered
// machines than that (S7), and no create makes more than one beyond it (S5).
func sized(size int, opts worldOptions) (worldOptions, **world) {
	w := new(*world)
	opts.Cloud.OnCall = func(c drivertest.Call) {
		registered, running := 0, 0
		for _, vm := range (*w).vms(web) {
			if vm.Status.Down() || vm.InstanceID == c.ID {
				continue
			}
			running++
			if m := (*w).machine(vm.InstanceID); m != nil {
				if _, err := m.identity(); err == nil {
					registered++
				}
			}
		}
		switch {
		case c.Op == drivertest.OpDelete && registered < size:
			(*w).t.Errorf("S7: delete of %s leaves %d registered machines, want %d", c.ID, registered, size)
		case c.Op == drivertest.OpCreate && running > size:
			(*w).t.Errorf("S5: create of %s while %d machines run, and the size is %d", c.ID, running, size)
		}
	}
	return opts, w
}

// types are the instance types of the machines of a group, in order.
func (w *world) types(group fleet.GroupID) []string {
	var all []string
	for _, in := range w.members(group) {
		all = append(all, in.InstanceType)
	}
	slices.Sort(all)
	return all
}

func (w *world) wantTypes(want ...string) {
	w.t.Helper()
	if got := w.types(web); !slices.Equal(got, want) {
		w.t.Errorf("types of the machines: %v, want %v", got, want)
	}
}

func TestS7_RotationKeepsTheSize(t *testing.T) {
	opts, guarded := sized(3, worldOptions{Cloud: drivertest.Options{Conditions: drivertest.Conditions{BootTime: 20 * time.Second}}})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, opts)
		*guarded = w
		defer w.close()
		w.lead()
		w.scale(web, 3)
		w.settle(time.Minute)
		w.reconfigure(large(opts))
		w.settle(15 * time.Second)
		w.wantTypes("large", "small", "small", "small")
		w.settle(2 * time.Minute)
		w.wantTypes("large", "large", "large")
		w.converged(3)
		if made := w.cloud.Created(); made != 6 {
			t.Errorf("%d machines were made, want 6", made)
		}
	})
}

// TestF14_CrashDuringRotation lets the leader die at every call that it makes while
// a group of three is rotated.
func TestF14_CrashDuringRotation(t *testing.T) {
	for _, when := range []moment{beforeCall, answerLost, afterAnswer} {
		t.Run(when.String(), func(t *testing.T) {
			n := 1
			for crashInRotation(t, n, when) {
				n++
			}
			if n < 20 {
				t.Errorf("a rotation of three machines made %d calls: the test shows little", n)
			}
		})
	}
}

func crashInRotation(t *testing.T, n int, when moment) (died bool) {
	t.Run(fmt.Sprint(n), func(t *testing.T) {
		opts, guarded := sized(3, worldOptions{Interval: "1s"})
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, opts)
			*guarded = w
			defer w.close()
			w.lead()
			w.scale(web, 3)
			w.settle(10 * time.Second)
			w.life.dieAt(n, when)
			w.static = config.Version{Config: testConfig(t, large(opts)), ETag: "2"}
			_ = w.shard().Apply(w.ctx, w.static) // whoever dies in it has a successor that knows
			w.settle(15 * time.Second)
			if died = w.life.died(); !died {
				w.wantTypes("large", "large", "large")
				return
			}
			if err := w.stop(); err != nil {
				t.Errorf("the dying leader says: %v", err)
			}
			w.lead()
			w.settle(3 * time.Minute)
			w.wantTypes("large", "large", "large")
			w.converged(3)
		})
	})
	return died && !t.Failed()
}

// TestL3_TemplateThatNeverBoots stops a rotation after one machine, says so, and tries
// again later and later, until it works.
func TestL3_TemplateThatNeverBoots(t *testing.T) {
	opts, guarded := sized(3, worldOptions{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, opts)
		*guarded = w
		defer w.close()
		w.lead()
		w.scale(web, 3)
		w.settle(6 * time.Minute)
		errs := w.watchErrors()
		w.dead.Store(true)
		w.reconfigure(large(opts))
		w.settle(4 * time.Minute)
		if made := w.cloud.Created(); made != 4 {
			t.Errorf("%d machines were tried, want 1", made-3)
		}
		w.wantTypes("small", "small", "small")
		if text := errs(); !strings.Contains(text, "rotation-stopped") {
			t.Errorf("the errors say nothing of the rotation: %q", text)
		}
		if text := w.conditions(web); !strings.Contains(text, "rotation-stopped") {
			t.Errorf("conditions: %s", text)
		}
		w.settle(time.Hour)
		if tried := w.cloud.Created() - 3; tried < 3 || tried > 5 {
			t.Errorf("%d machines were tried in an hour, want 3 to 5", tried)
		}
		w.dead.Store(false)
		w.settle(2 * time.Hour)
		w.wantTypes("large", "large", "large")
		w.converged(3)
	})
}

// TestL3_AnotherTemplateIsTriedAtOnce: the mistake is mended.
func TestL3_AnotherTemplateIsTriedAtOnce(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(6 * time.Minute)
		w.dead.Store(true)
		w.reconfigure(large(w.opts))
		w.settle(4 * time.Minute)
		w.dead.Store(false)
		w.reconfigure(worldOptions{Type: `"medium"`})
		w.settle(2 * time.Minute)
		w.wantTypes("medium", "medium")
		w.converged(2)
	})
}

// watchErrors follows the errors of the tenant; the function that it returns says
// what has come so far.
func (w *world) watchErrors() func() string {
	var buf lockedBuffer
	r := w.term()
	w.agents.Go(func() {
		_ = r.events.WatchErrors(w.ctx, web.Tenant, func(ev *events.Error) error {
			_, err := fmt.Fprintf(&buf, "%s: %s\n", ev.Class, ev.Text)
			return err
		})
	})
	synctest.Wait()
	return buf.String
}

// conditions are those of a group, in words.
func (w *world) conditions(group fleet.GroupID) string {
	var all []string
	for _, c := range w.term().planner.evaluate(group, time.Now()).conditions() {
		all = append(all, c.Type+": "+c.Message)
	}
	return strings.Join(all, "; ")
}

// TestMaintenanceWindowHoldsRotation: the bubble's clock begins at midnight.
func TestMaintenanceWindowHoldsRotation(t *testing.T) {
	opts := worldOptions{Server: `"rails": {"maintenance_windows": [{"cron": "0 2 * * *", "duration": "1h"}]}`}
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		w.reconfigure(large(opts))
		w.settle(119*time.Minute - time.Second)
		w.wantTypes("small", "small")
		if text := w.conditions(web); !strings.Contains(text, "window: no maintenance window is open") {
			t.Errorf("conditions: %s", text)
		}
		w.settle(2 * time.Minute)
		w.wantTypes("large", "large")
		w.converged(2)
	})
}

func TestExpiryReplacesOneAtATime(t *testing.T) {
	opts, guarded := sized(3, worldOptions{Server: `"expiry": {"eligible_age": "1h", "forced_age": "3h", "ondemand_age": "90m"}`})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, opts)
		*guarded = w
		defer w.close()
		w.lead()
		w.scale(web, 3)
		other := fleet.GroupID{Tenant: web.Tenant, Name: "other"}
		w.scale(other, 0)
		res, err := w.term().requests.CreateInstance(w.ctx, "default", InstanceRequest{Group: other.Name})
		if err != nil {
			t.Fatal(err)
		}
		w.settle(time.Hour - time.Second)
		if made := w.cloud.Created(); made != 4 {
			t.Errorf("%d machines before anybody is old enough, want 4", made)
		}
		w.settle(5 * time.Second)
		if made := w.cloud.Created(); made != 5 {
			t.Errorf("%d machines were replaced at once, want 1", made-4)
		}
		w.settle(5 * time.Minute)
		w.converged(4)
		if made := w.cloud.Created(); made != 7 {
			t.Errorf("%d machines were replaced, want 3", made-4)
		}
		w.stop() // an age outlives a change of leader
		w.lead()
		w.settle(20 * time.Minute)
		if st, err := w.term().planner.status.GetInstance("default", res.ID.String()); err != nil || st.Status != "running" {
			t.Errorf("the machine on demand: %v, %v", st, err)
		}
		w.settle(5 * time.Minute)
		w.converged(3)
	})
}

// TestF26_MachinesThatEndYoung: a registration alone is no proof; what ends soon
// after it is tried a bounded number of times in an hour.
func TestF26_MachinesThatEndYoung(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		for range 118 {
			w.settle(30 * time.Second)
			for _, vm := range w.vms(web) {
				w.cloud.Kill(vm.InstanceID)
			}
		}
		if made := w.cloud.Created(); made != 6 {
			t.Errorf("%d machines were made in an hour, want the first and 5 more", made)
		}
		if text := w.conditions(web); !strings.Contains(text, "crash-looping") {
			t.Errorf("conditions: %s", text)
		}
		w.settle(10 * time.Minute)
		w.converged(1)
	})
}

// TestF26_WhatACallerDeletesDoesNotCount: nothing is wrong with such machines.
func TestF26_WhatACallerDeletesDoesNotCount(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		for range 10 {
			w.settle(30 * time.Second)
			w.deleteInstance(w.vms(web)[0].InstanceID.String(), false)
		}
		w.settle(30 * time.Second)
		w.converged(1)
	})
}
