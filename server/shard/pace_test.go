package shard

import (
	"sync"
	"testing"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/groups"
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

func TestBucketsOfTheConfigurationReplaceTheDrivers(t *testing.T) {
	limits := driver.Limits{Calls: driver.Bucket{Rate: 1, Burst: 1}}
	opts := worldOptions{Limits: `{"calls": {"rate": 100, "burst": 100}}`, Cloud: drivertest.Options{Limits: limits}}
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.scale(web, 50)
		w.settle(time.Second)
		w.converged(50)
	})
}

// TestS8_DeletedGroupsShareOneBound: they are deleted and planned at the same time,
// each with all the room there is.
func TestS8_DeletedGroupsShareOneBound(t *testing.T) {
	inWorld(t, worldOptions{Cloud: drivertest.Options{Conditions: drivertest.Conditions{DeleteTime: time.Hour}}}, func(t *testing.T, w *world) {
		three := []fleet.GroupID{web, {Tenant: "default", Name: "db"}, theirs}
		for _, g := range three {
			w.scale(g, 9)
		}
		w.settle(time.Minute)
		w.store.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Latency: 100 * time.Millisecond} })
		var all sync.WaitGroup
		for _, g := range three {
			all.Go(func() {
				if err := w.term().requests.DeleteGroup(w.ctx, g.Tenant, g.Name, groups.Manager{}); err != nil {
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
		if err := w.term().requests.DeleteGroup(w.ctx, "default", "web", groups.Manager{}); err != nil {
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
