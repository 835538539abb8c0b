package provider

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

var (
	web   = fleet.GroupID{Tenant: "a", Name: "web"}
	small = fleet.GroupID{Tenant: "b", Name: "small"}
)

// TestL7_ADelayEndsBeforeTheHalfFills: a group is not kept waiting for its half of a bucket
// that takes longer to fill than the group is slow.
func TestL7_ADelayEndsBeforeTheHalfFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(driver.Bucket{Rate: 0.01, Burst: 1}, nil, time.Now)
		b.throttled(web)
		b.takeHalf(web)
		if d := b.delay(web); d != ThrottlePause {
			t.Errorf("delayed by %v, want %v", d, ThrottlePause)
		}
	})
}

func TestL7_BucketOfThrottledGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(driver.Bucket{Rate: 10, Burst: 10}, nil, time.Now)
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
		b.throttled(web)
		b.throttled(web)
		if d := took(web, 11); d < 2*time.Second-time.Microsecond || d > 2*time.Second+time.Microsecond {
			t.Errorf("11 calls of a slow group took %v, want 2s", d)
		}
		if d := took(small, 9); d != 0 {
			t.Errorf("9 calls of another group took %v", d)
		}
		if r, other := b.rate(web), b.rate(small); r != 5 || other != 10 {
			t.Errorf("rates %v and %v, want 5 and 10", r, other)
		}
		if d := b.delay(web); d < 190*time.Millisecond || d > 200*time.Millisecond || b.delay(small) != 0 {
			t.Errorf("delayed by %v and %v", d, b.delay(small))
		}
		time.Sleep(ThrottlePause - 2*time.Second)
		if r := b.rate(web); r != 10 || b.delay(web) != 0 {
			t.Errorf("a minute after the complaint: rate %v, delayed by %v", r, b.delay(web))
		}
		b.throttled(web)
		time.Sleep(ThrottlePause / 2)
		b.throttled(web)
		time.Sleep(ThrottlePause - time.Second)
		if r := b.rate(web); r != 5 {
			t.Errorf("59s after the second of two complaints: rate %v, want 5", r)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if b.wait(ended, web) == nil || newBucket(driver.Bucket{}, nil, time.Now).wait(ended, web) == nil {
			t.Error("a wait outlived its context")
		}
	})
}
