package shard

import (
	"context"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/lease"
)

// How long a leader waits before it makes sure again that it has its address: at
// least the first, and up to as long as both. Until then an address stays lost that
// somebody took away, or that the cloud was still taking away from the server that led
// on this very machine before.
const (
	addressRest   = 30 * time.Second
	addressSpread = 30 * time.Second
)

// keepAddress moves the leader's address to this server, and sees to it that it stays
// there for as long as the lease lasts. Serving does not wait for it.
func (r *Reign) keepAddress(ctx context.Context) {
	network, ok := r.opts.Driver.(driver.LeaderNetwork)
	if !ok {
		return
	}
	for failures := 0; lease.Check(ctx) == nil; {
		err := network.AssignLeaderNetwork(ctx, r.opts.Addresses())
		if driver.KindOf(err) == driver.Unsupport || ctx.Err() != nil {
			return
		}
		wait := addressRest + time.Duration(r.opts.Jitter()*float64(addressSpread))
		if err == nil {
			failures = 0
		} else {
			wait = addressRetry(failures)
			failures++
			r.opts.Metrics.addressFailed()
			r.log.WarnContext(ctx, "leader address not assigned", "retry_in", wait, "error", err)
		}
		if pause(ctx, wait) != nil {
			return
		}
	}
}

// addressRetry is the pause after a try that failed, by how many failed before it in
// a row: 1 s, doubled up to 8 s.
func addressRetry(before int) time.Duration { return time.Second << min(before, 3) }

// addressRelease bounds how long a server that leads no more tries to give the
// leader's address up; the next leader takes it in any case.
const addressRelease = 2 * time.Second

// releaseAddress gives the leader's address up. The lease is over by then: this
// is the one call that must not wait for it.
func (r *Reign) releaseAddress() {
	network, ok := r.opts.Driver.(driver.LeaderNetwork)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), addressRelease)
	defer cancel()
	if err := network.ReleaseLeaderNetwork(ctx); err != nil && driver.KindOf(err) != driver.Unsupport {
		r.log.WarnContext(ctx, "leader address not released", "error", err)
	}
}
