package shard

import (
	"testing"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
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
		w.scale(web, 1000)
		w.settle(20 * time.Second)
		times := w.createTimes()
		if len(times) != 1000 {
			t.Fatalf("%d creates, want 1000: none was throttled", len(times))
		}
		ideal := 4750 * time.Millisecond // (1000 - 50) / 200
		if took := times[999].Sub(began); took < ideal-5*time.Millisecond || took > ideal*100/95 {
			t.Errorf("1000 creates took %v, ideal is %v", took, ideal)
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
	opts := worldOptions{Timeout: "5m", Cloud: drivertest.Options{Limits: limits, Enforce: true}}
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.cloud.SetConditions(drivertest.Conditions{BootTime: 90 * time.Second, Latency: time.Second})
		w.scale(web, 900) // 7.5 minutes of calls
		w.settle(10 * time.Minute)
		w.converged(900)
		if n := len(w.createTimes()); n != 900 {
			t.Errorf("%d creates for 900 machines", n)
		}
		keepsBucket(t, w.createTimes(), 2, 5)
	})
}

func TestL7_GroupsTakeTurns(t *testing.T) {
	limits := driver.Limits{Calls: driver.Bucket{Rate: 10, Burst: 1}}
	small := fleet.GroupID{Tenant: "b", Name: "small"}
	inWorld(t, worldOptions{Cloud: drivertest.Options{Limits: limits}}, func(t *testing.T, w *world) {
		w.scale(web, 500)
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
	first := b.block(web, now, driver.Quota, "quota: one")
	if again := b.block(web, now.Add(time.Second), driver.Quota, "quota: two"); again != first-time.Second {
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
	if second := b.block(web, now.Add(first), driver.Capacity, "capacity"); second != 10*time.Second {
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

func TestValidHostname(t *testing.T) {
	for name, want := range map[string]bool{
		"": false, "a": true, "node-1.example.com": true, "A9": true, "-a": false, "a-": false, "a..b": false, ".a": false,
		"a.": false, "a_b": false, "a b": false, "ä": false, "a\x00": false,
		string(make([]byte, 254)): false,
	} {
		if got := validHostname(name); got != want {
			t.Errorf("validHostname(%q) = %v, want %v", name, got, want)
		}
	}
}
