package shard

import (
	"sync/atomic"
	"testing"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
)

var small = fleet.GroupID{Tenant: "b", Name: "small"}

// everyThird throttles every third create of one group; of all groups if it is the zero
// one.
func everyThird(group fleet.GroupID) drivertest.Faults {
	var n atomic.Int32
	return func(c drivertest.Call) drivertest.Fault {
		if c.Op != drivertest.OpCreate || group != (fleet.GroupID{}) && c.Request.Group != group.Name {
			return drivertest.Fault{}
		}
		if n.Add(1)%3 > 0 {
			return drivertest.Fault{}
		}
		return drivertest.Fail(driver.Throttled)
	}
}

func running(vms []drivertest.VM) (n int) {
	for _, vm := range vms {
		if vm.Status == driver.Running {
			n++
		}
	}
	return n
}

// TestF24L7_ThrottlingSlowsWhoIsThrottled: while a large group grows and the provider
// refuses its creates at random, another group that grows has its creates sent, and its
// machines, at most a fifth later than without; and the large one reaches its size.
func TestF24L7_ThrottlingSlowsWhoIsThrottled(t *testing.T) {
	const large, few, boot = 60, 5, 10 * time.Second
	limits := driver.Limits{Calls: driver.Bucket{Rate: 2, Burst: 5}}
	grow := func(t *testing.T, faults drivertest.Faults) (sent, runs time.Duration) {
		inWorld(t, worldOptions{Cloud: drivertest.Options{Limits: limits, Enforce: true}}, func(t *testing.T, w *world) {
			w.cloud.SetConditions(drivertest.Conditions{BootTime: boot, Latency: 200 * time.Millisecond})
			w.cloud.SetFaults(faults)
			w.scale(web, large)
			w.settle(10 * time.Second)
			began := time.Now()
			w.scale(small, few)
			for running(w.vms(small)) < few {
				w.settle(50 * time.Millisecond)
			}
			runs = time.Since(began)
			for _, c := range w.cloud.Calls() {
				if c.Op == drivertest.OpCreate && c.Request.Group == small.Name {
					sent = c.At.Sub(began)
				}
			}
			w.settle(2 * time.Minute)
			if n := len(w.vms(web)); n != large {
				t.Errorf("%d machines of the large group, want %d", n, large)
			}
			keepsBucket(t, w.createTimes(), limits.Calls.Rate, limits.Calls.Burst)
		})
		return sent, runs
	}
	sent, runs := grow(t, nil)
	throttledSent, throttledRuns := grow(t, everyThird(web))
	t.Logf("the last create was sent after %v, without throttling %v; all ran after %v, without %v", throttledSent, sent, throttledRuns, runs)
	if throttledSent > sent*6/5 || throttledRuns > runs*6/5 {
		t.Errorf("the last create was sent after %v, without throttling %v; all ran after %v, without %v", throttledSent, sent, throttledRuns, runs)
	}
}

// TestS21_ThrottledGroupsShareHalfOfTheRate: where every group is throttled the provider
// is called half as often.
func TestS21_ThrottledGroupsShareHalfOfTheRate(t *testing.T) {
	limits := driver.Limits{Calls: driver.Bucket{Rate: 10, Burst: 1}}
	inWorld(t, worldOptions{DeadAgents: true, Cloud: drivertest.Options{Limits: limits}}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(everyThird((fleet.GroupID{})))
		began := time.Now()
		w.scale(web, 100)
		w.scale(small, 100)
		w.settle(35 * time.Second)
		calls := map[string]int{}
		for _, c := range w.cloud.Calls() {
			if since := c.At.Sub(began); c.Op == drivertest.OpCreate && since >= 5*time.Second && since < 35*time.Second {
				calls[c.Request.Group]++
			}
		}
		if n := calls[web.Name] + calls[small.Name]; n < 145 || n > 155 || calls[small.Name] < 70 || calls[web.Name] < 70 {
			t.Errorf("calls in 30s: %v, want 150 together", calls)
		}
	})
}
