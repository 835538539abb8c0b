package provider

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/lease"
)

// stubborn is a cloud that fails to move the leader's address a few times. The
// lease ends with its last failure.
type stubborn struct {
	driver.Driver
	failures, calls int
	lost            context.CancelFunc
}

func (s *stubborn) AssignLeaderNetwork(context.Context, driver.Addresses) error {
	if s.calls++; s.calls > s.failures {
		return nil
	}
	if s.calls == s.failures {
		s.lost()
	}
	return driver.Fail(driver.Transient, "assign", errors.New("not now"))
}

func (*stubborn) ReleaseLeaderNetwork(context.Context) error { return nil }

// TestS2_AddressNeedsTheLease: a server that wakes up between two tries to move the
// leader's address, after its lease, must not take it from the next leader.
func TestS2_AddressNeedsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, lost := context.WithCancel(t.Context())
		defer lost()
		failed := 0
		cloud := &stubborn{Driver: drivertest.New(drivertest.Options{}), failures: 3, lost: lost}
		a := &Address{
			Driver: cloud, Addresses: func() driver.Addresses { return driver.Addresses{} }, Jitter: func() float64 { return 0 },
			Failed: func() { failed++ }, Log: slog.New(slog.DiscardHandler),
		}
		a.Hold(context.WithoutCancel(lease.Always(ctx, 1))) // timers and cancellation come late
		if cloud.calls != 3 || failed != 3 {
			t.Errorf("%d tries, %d told as failed; want 3: none after the lease", cloud.calls, failed)
		}
	})
}

// taken is a cloud whose leader address somebody takes away once, unseen.
type taken struct {
	driver.Driver
	here  atomic.Bool
	asked []time.Duration
	since time.Time
}

func (c *taken) AssignLeaderNetwork(context.Context, driver.Addresses) error {
	c.asked = append(c.asked, time.Since(c.since))
	c.here.Store(true)
	return nil
}

func (c *taken) ReleaseLeaderNetwork(context.Context) error { c.here.Store(false); return nil }

// TestAddressLostWhileLeadingComesBack: a leader makes sure of its address every 30 to
// 60 seconds, and no more often.
func TestAddressLostWhileLeadingComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, lost := context.WithTimeout(t.Context(), 4*time.Minute)
		defer lost()
		cloud := &taken{Driver: drivertest.New(drivertest.Options{}), since: time.Now()}
		turn := 0.0
		a := &Address{
			Driver: cloud, Addresses: func() driver.Addresses { return driver.Addresses{} }, Failed: func() {},
			Jitter: func() float64 { turn = 1 - turn; return turn / 2 }, Log: slog.New(slog.DiscardHandler),
		}
		time.AfterFunc(10*time.Second, func() { cloud.here.Store(false) })
		a.Hold(lease.Always(ctx, 1))
		if want := []time.Duration{0, 45 * time.Second, 75 * time.Second, 120 * time.Second, 150 * time.Second, 195 * time.Second, 225 * time.Second}; !slices.Equal(cloud.asked, want) {
			t.Errorf("asked for after %v, want %v", cloud.asked, want)
		}
		if !cloud.here.Load() {
			t.Error("the address is lost")
		}
	})
}

// TestS21_AddressRetriesAreSpaced: failures are tried again after 1, 2, 4 and then
// always 8 seconds.
func TestS21_AddressRetriesAreSpaced(t *testing.T) {
	var got []time.Duration
	for before := range 6 {
		got = append(got, addressRetry(before))
	}
	if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second, 8 * time.Second}; !slices.Equal(got, want) {
		t.Errorf("pauses of %v, want %v", got, want)
	}
}
