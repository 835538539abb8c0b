package shard

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

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
		cloud := &stubborn{Driver: drivertest.New(drivertest.Options{}), failures: 3, lost: lost}
		r := &Reign{log: slog.New(slog.DiscardHandler), opts: Options{
			Driver: cloud, Addresses: func() driver.Addresses { return driver.Addresses{} }, Metrics: NewMetrics(nil),
		}}
		r.assignAddress(context.WithoutCancel(lease.Always(ctx, 1))) // timers and cancellation come late
		if cloud.calls != 3 {
			t.Errorf("%d tries, want 3: none after the lease", cloud.calls)
		}
	})
}
