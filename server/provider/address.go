package provider

import (
	"context"
	"log/slog"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/lease"
	"nstance.dev/server/retry"
)

// How long a leader waits before it makes sure again that it has its address: at
// least the first, and up to as long as both. Until then an address stays lost that
// somebody took away, or that the cloud was still taking away from the server that led
// on this very machine before.
const (
	addressRest   = 30 * time.Second
	addressSpread = 30 * time.Second
)

// addressRelease bounds how long a server that leads no more tries to give the
// leader's address up; the next leader takes it in any case.
const addressRelease = 2 * time.Second

// Address is the leader's address, for providers that move one ([driver.LeaderNetwork]).
type Address struct {
	Driver    driver.Driver
	Addresses func() driver.Addresses // of this server
	Jitter    func() float64          // from 0 up to 1
	Failed    func()                  // is told each try that failed
	Log       *slog.Logger
}

// Hold moves the address to this server, and sees to it that it stays there for as long
// as the lease of ctx lasts. It returns at once if the provider moves none.
func (a *Address) Hold(ctx context.Context) {
	network, ok := a.Driver.(driver.LeaderNetwork)
	if !ok {
		return
	}
	for failures := 0; lease.Check(ctx) == nil; {
		err := network.AssignLeaderNetwork(ctx, a.Addresses())
		if driver.ClassOf(err) == driver.Unsupported || ctx.Err() != nil {
			return
		}
		wait := addressRest + time.Duration(a.Jitter()*float64(addressSpread))
		if err == nil {
			failures = 0
		} else {
			wait = addressRetry(failures)
			failures++
			a.Failed()
			a.Log.WarnContext(ctx, "leader address not assigned", "retry_in", wait, "error", err)
		}
		if retry.Wait(ctx, wait) != nil {
			return
		}
	}
}

// addressRetry is the pause after a try that failed, by how many failed before it in
// a row: 1 s, doubled up to 8 s.
func addressRetry(before int) time.Duration { return time.Second << min(before, 3) }

// Release gives the address up, within two seconds. The lease is over by then: this is
// the one call that must not wait for it, and the end of ctx does not end it.
func (a *Address) Release(ctx context.Context) {
	network, ok := a.Driver.(driver.LeaderNetwork)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), addressRelease)
	defer cancel()
	if err := network.ReleaseLeaderNetwork(ctx); err != nil && driver.ClassOf(err) != driver.Unsupported {
		a.Log.WarnContext(ctx, "leader address not released", "error", err)
	}
}
