package shard

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
		if c.Op != drivertest.OpCreate || group != noGroup && c.Request.Group != group.Name {
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
		w.cloud.SetFaults(everyThird(noGroup))
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

// TestSlownessEndsBeforeTheHalfFills: a group is not kept waiting for its half of a bucket
// that takes longer to fill than the group is slow.
func TestSlownessEndsBeforeTheHalfFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTokens(driver.Bucket{Rate: 0.01, Burst: 1}, nil, time.Now)
		b.complain(web)
		b.takeHalf(web)
		if d := b.shut(web); d != throttlePause {
			t.Errorf("shut for %v, want %v", d, throttlePause)
		}
	})
}

func TestTokensOfSlowGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTokens(driver.Bucket{Rate: 10, Burst: 10}, nil, time.Now)
		took := func(group fleet.GroupID, calls int) time.Duration {
			began := time.Now()
			for range calls {
				if err := b.wait(t.Context(), group); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(began)
		}
		if d := took(web, 10); d != 0 {
			t.Errorf("a full bucket took %v", d)
		}
		b.complain(web)
		b.complain(web)
		if d := took(web, 11); d < 2*time.Second-time.Microsecond || d > 2*time.Second+time.Microsecond {
			t.Errorf("11 calls of a slow group took %v, want 2s", d)
		}
		if d := took(small, 9); d != 0 {
			t.Errorf("9 calls of another group took %v", d)
		}
		if r, other := b.rate(web), b.rate(small); r != 5 || other != 10 {
			t.Errorf("rates %v and %v, want 5 and 10", r, other)
		}
		if d := b.shut(web); d < 190*time.Millisecond || d > 200*time.Millisecond || b.shut(small) != 0 {
			t.Errorf("shut for %v and %v", d, b.shut(small))
		}
		time.Sleep(throttlePause - 2*time.Second)
		if r := b.rate(web); r != 10 || b.shut(web) != 0 {
			t.Errorf("a minute after the complaint: rate %v, shut for %v", r, b.shut(web))
		}
		b.complain(web)
		time.Sleep(throttlePause / 2)
		b.complain(web)
		time.Sleep(throttlePause - time.Second)
		if r := b.rate(web); r != 5 {
			t.Errorf("59s after the second of two complaints: rate %v, want 5", r)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if b.wait(ended, web) == nil || newTokens(driver.Bucket{}, nil, time.Now).wait(ended, web) == nil {
			t.Error("a wait outlived its context")
		}
	})
}
