package shard

import (
	"errors"
	"sync"
	"testing"
	"time"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore/memory"
)

// createTimes are when the cloud received each create.
func (w *world) createTimes() []time.Time {
	var all []time.Time
	for _, call := range w.cloud.Calls() {
		if call.Op == drivertest.OpCreate {
			all = append(all, call.At)
		}
	}
	return all
}

func TestP7_CreatesGoOutAtTheRateOfTheBucket(t *testing.T) {
	limits := driver.Limits{Instances: driver.Bucket{Rate: 200, Burst: 50}}
	opts := worldOptions{DeadAgents: true, Cloud: drivertest.Options{Limits: limits, Enforce: true}}
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.cloud.SetConditions(drivertest.Conditions{Latency: 200 * time.Millisecond})
		began := time.Now()
		w.scale(web, 250)
		w.settle(20 * time.Second)
		times := w.createTimes()
		if len(times) != 250 {
			t.Fatalf("%d creates, want 250: none was throttled", len(times))
		}
		ideal := time.Second // (250 - 50) / 200
		if took := times[249].Sub(began); took < ideal-5*time.Millisecond || took > ideal*100/95 {
			t.Errorf("250 creates took %v, ideal is %v", took, ideal)
		}
		keepsBucket(t, times, 200, 50)
	})
}

// keepsBucket checks that no stretch of calls has more than the bucket admits.
func keepsBucket(t *testing.T, times []time.Time, rate float64, burst int) {
	t.Helper()
	level, last := float64(burst), times[0]
	for i, at := range times {
		level = min(level+at.Sub(last).Seconds()*rate, float64(burst)) - 1
		if level < -0.01 {
			t.Fatalf("S21: call %d at %v is beyond %v/s with a burst of %d", i, at, rate, burst)
		}
		last = at
	}
}

func TestP7_SlowBucketLetsNoNonceExpire(t *testing.T) {
	limits := driver.Limits{Calls: driver.Bucket{Rate: 2, Burst: 5}}
	opts := worldOptions{Timeout: "1m", Cloud: drivertest.Options{Limits: limits, Enforce: true}}
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.cloud.SetConditions(drivertest.Conditions{BootTime: 20 * time.Second, Latency: time.Second})
		w.scale(web, 250) // two minutes of calls
		w.settle(4 * time.Minute)
		w.converged(250)
		if n := len(w.createTimes()); n != 250 {
			t.Errorf("%d creates for 250 machines", n)
		}
		keepsBucket(t, w.createTimes(), 2, 5)
	})
}

func TestL7_GroupsTakeTurns(t *testing.T) {
	limits := driver.Limits{Calls: driver.Bucket{Rate: 10, Burst: 1}}
	inWorld(t, worldOptions{Cloud: drivertest.Options{Limits: limits}}, func(t *testing.T, w *world) {
		w.scale(web, 100)
		w.settle(time.Second)
		w.scale(small, 5)
		w.settle(1200 * time.Millisecond)
		if n := len(w.vms(small)); n != 5 {
			t.Errorf("%d of 5 machines of the small group after 12 turns", n)
		}
	})
}

func TestBucketsOfTheConfigurationReplaceTheDrivers(t *testing.T) {
	limits := driver.Limits{Calls: driver.Bucket{Rate: 1, Burst: 1}}
	opts := worldOptions{Limits: `{"calls": {"rate": 100, "burst": 100}}`, Cloud: drivertest.Options{Limits: limits}}
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.scale(web, 50)
		w.settle(time.Second)
		w.converged(50)
	})
}

func TestBackoffAfter(t *testing.T) {
	for _, tt := range []struct {
		failures int
		swing    float64
		want     time.Duration
	}{
		{0, 0, 5 * time.Second}, {1, 0, 10 * time.Second}, {3, 0, 40 * time.Second},
		{6, 0, 5 * time.Minute}, {100, 0, 5 * time.Minute},
		{0, 1, 6 * time.Second}, {0, -1, 4 * time.Second}, {100, 1, 6 * time.Minute},
	} {
		if got := backoffAfter(tt.failures, tt.swing); got != tt.want {
			t.Errorf("after %d failures with swing %v: %v, want %v", tt.failures, tt.swing, got, tt.want)
		}
	}
}

func TestBackoffs(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := newBackoffs(func() float64 { return 0.5 })
	if g := b.gate(web, now); g != (fleet.Gate{}) {
		t.Errorf("a group without failures: %v", g)
	}
	first := b.block(web, now, driver.Quota, errors.New("one"))
	if again := b.block(web, now.Add(time.Second), driver.Quota, errors.New("two")); again != first-time.Second {
		t.Errorf("a failure of the same burst blocks for %v, want the rest of %v", again, first)
	}
	if g := b.gate(web, now.Add(first-1)); g.Blocked != "quota: two" || !g.Until.Equal(now.Add(first)) {
		t.Errorf("gate %v, want shut until %v", g, now.Add(first))
	}
	if g := b.gate(web, now.Add(first)); g != (fleet.Gate{}) {
		t.Errorf("gate %v when the pause is over", g)
	}
	if g := b.gate(theirs, now); g != (fleet.Gate{}) {
		t.Errorf("another group: %v", g)
	}
	if second := b.block(web, now.Add(first), driver.Capacity, errors.New("full")); second != 10*time.Second {
		t.Errorf("the second failure blocks for %v, want 10s in the middle of the jitter", second)
	}
	b.reset(web)
	if g := b.gate(web, now.Add(first)); g != (fleet.Gate{}) {
		t.Errorf("gate %v after a success", g)
	}
}

func TestWindow(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := &window{span: time.Minute}
	if room, next := w.room(2, start); room != 2 || !next.IsZero() {
		t.Errorf("an empty window: %d, %v", room, next)
	}
	w.add(start)
	w.add(start.Add(10 * time.Second))
	w.add(start.Add(20 * time.Second)) // beyond the bound, and counted
	if room, next := w.room(2, start.Add(30*time.Second)); room != 0 || !next.Equal(start.Add(time.Minute)) {
		t.Errorf("a full window: %d, %v", room, next)
	}
	if room, _ := w.room(2, start.Add(time.Minute)); room != 0 {
		t.Errorf("room %d with two of two counted", room)
	}
	if room, _ := w.room(2, start.Add(75*time.Second)); room != 1 {
		t.Errorf("room %d with one of two counted", room)
	}
}

// TestS8_DeletedGroupsShareOneBound: they are deleted and planned at the same time,
// each with all the room there is.
func TestS8_DeletedGroupsShareOneBound(t *testing.T) {
	inWorld(t, worldOptions{Cloud: drivertest.Options{Conditions: drivertest.Conditions{DeleteTime: time.Hour}}}, func(t *testing.T, w *world) {
		groups := []fleet.GroupID{web, {Tenant: "default", Name: "db"}, theirs}
		for _, g := range groups {
			w.scale(g, 9)
		}
		w.settle(time.Minute)
		w.store.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Latency: 100 * time.Millisecond} })
		var all sync.WaitGroup
		for _, g := range groups {
			all.Go(func() {
				if err := w.reign().DeleteGroup(w.ctx, g.Tenant, &nstancev1.DeleteGroupRequest{Key: g.Name}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		w.settle(30 * time.Second)
		w.store.SetFaults(nil)
		condemned := 0
		for _, rec := range w.records() {
			if rec.Deletion != nil {
				condemned++
			}
		}
		if condemned != 10 {
			t.Errorf("%d of 27 machines go in the first minute, want the bound of 10", condemned)
		}
	})
}

// TestS8_MachinesThatMayRunTakeRoom: no answer to their creates has come, and some of them
// run all the same.
func TestS8_MachinesThatMayRunTakeRoom(t *testing.T) {
	inWorld(t, worldOptions{DeadAgents: true}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Any(
			drivertest.Always(drivertest.OpCreate, drivertest.LostAnswer()),
			drivertest.Always(drivertest.OpGet, drivertest.Fail(driver.Transient)),
			drivertest.Always(drivertest.OpList, drivertest.Fail(driver.Transient)),
		))
		w.scale(web, 25)
		w.settle(20 * time.Second)
		if made := w.cloud.Created(); made != 25 {
			t.Fatalf("%d machines were made, want 25", made)
		}
		if err := w.reign().DeleteGroup(w.ctx, "default", &nstancev1.DeleteGroupRequest{Key: "web"}); err != nil {
			t.Fatal(err)
		}
		w.settle(30 * time.Second)
		condemned := 0
		for _, rec := range w.records() {
			if rec.Deletion != nil {
				condemned++
			}
		}
		if condemned != 10 {
			t.Errorf("%d of 25 machines go in the first minute, want the bound of 10", condemned)
		}
		w.cloud.SetFaults(nil)
		w.settle(5 * time.Minute)
		w.converged(0)
	})
}

// TestS8_NewLeaderBeginsWithoutRoom: what the last one did in its last minute counts
// too, and nobody knows it.
func TestS8_NewLeaderBeginsWithoutRoom(t *testing.T) {
	w := &window{span: time.Minute}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w.shutFor(now)
	if room, next := w.room(5, now.Add(59*time.Second)); room != 0 || !next.Equal(now.Add(time.Minute)) {
		t.Errorf("room for %d, more at %v", room, next)
	}
	if w.take(5, now.Add(59*time.Second)) {
		t.Error("something began within the minute")
	}
	if room, _ := w.room(5, now.Add(time.Minute)); room != 5 {
		t.Errorf("room for %d after the minute, want 5", room)
	}
	w.take(5, now.Add(time.Minute))
	w.ended(now.Add(time.Minute), now.Add(70*time.Second))
	if room, next := w.room(5, now.Add(125*time.Second)); room != 4 || !next.Equal(now.Add(130*time.Second)) {
		t.Errorf("room for %d, more at %v: a minute counts from the end", room, next)
	}
}
