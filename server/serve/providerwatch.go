package serve

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/peers"
	"nstance.dev/server/provider"
)

// How a server that can't reach the provider is told from a provider that is
// away (L9).
const (
	probeInterval = time.Minute     // between a standby's probes
	witnessAge    = 2 * time.Minute // a probe that worked counts for this long
	fewestTries   = 3               // that failed before a leader yields
)

// yields decides whether a leader gives the shard up: none of its calls has come
// through to the provider for two leases, while a standby's probe has. Without
// such a standby nothing would be won.
func yields(trouble provider.Trouble, witnessed, now time.Time, lease time.Duration) bool {
	return unreachableTooLong(trouble, now, lease) && !witnessed.IsZero() && now.Sub(witnessed) <= witnessAge
}

// unreachableTooLong reports whether the provider has not been reached for too long.
func unreachableTooLong(trouble provider.Trouble, now time.Time, lease time.Duration) bool {
	return trouble.Tried >= fewestTries && now.Sub(trouble.Since) >= 2*lease
}

// providerWatch has a standby probe the provider, and a leader yield to one
// whose probe works.
type providerWatch struct {
	lease   time.Duration
	elector interface {
		leads() bool
		resign(ctx context.Context, stayOut time.Duration) error
	}
	shard interface {
		ProviderTrouble() provider.Trouble
		ProbeProvider(within time.Duration)
	}
	witness *peers.Witness
	get     func(context.Context, driver.Ref) (driver.Machine, error)
	timeout time.Duration // of a probe
	log     *slog.Logger
	now     func() time.Time

	alarmed bool // it was said that there is nobody to yield to

	mu     sync.Mutex
	probed time.Time // when the last probe began
	worked time.Time // when it was answered; zero: it failed
}

// lastWorked is when this server's own probe worked; false if the latest did not.
func (w *providerWatch) lastWorked() (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.worked, !w.worked.IsZero()
}

// run watches until ctx ends.
func (w *providerWatch) run(ctx context.Context) error {
	ticker := time.NewTicker(w.lease / 5)
	defer ticker.Stop()
	for {
		if w.elector.leads() {
			w.lead(ctx, w.now())
		} else {
			w.standBy(ctx, w.now())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// lead looks whether to yield. A provider that was not reached is tried again
// at a pace, for a shard at rest calls it rarely.
func (w *providerWatch) lead(ctx context.Context, now time.Time) {
	trouble := w.shard.ProviderTrouble()
	if yields(trouble, w.witness.Worked(), now, w.lease) {
		w.log.ErrorContext(ctx, "leadership given up: the provider is not reached from here, and is from a standby",
			"since", trouble.Since, "calls", trouble.Tried, "stay_out", 3*w.lease)
		if err := w.elector.resign(ctx, 3*w.lease); err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "leadership not given up", "error", err)
		}
		return
	}
	if alarm := unreachableTooLong(trouble, now, w.lease); alarm != w.alarmed {
		w.alarmed = alarm
		if alarm {
			w.log.ErrorContext(ctx, "provider not reached: no standby is known that reaches it", "since", trouble.Since, "calls", trouble.Tried)
		} else {
			w.log.InfoContext(ctx, "provider reached again")
		}
	}
	if trouble.Tried > 0 && now.Sub(trouble.Last) >= w.lease/2 {
		w.shard.ProbeProvider(w.lease / 2)
	}
}

// standBy probes the provider when it is time, so that a leader that can't
// reach it knows whether this server can.
func (w *providerWatch) standBy(ctx context.Context, now time.Time) {
	w.mu.Lock()
	due := w.probed.IsZero() || now.Sub(w.probed) >= probeInterval
	w.mu.Unlock()
	if !due {
		return
	}
	callCtx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	err := driver.Probe(callCtx, w.get)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		w.log.WarnContext(ctx, "standby does not reach the provider", "error", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.probed, w.worked = now, time.Time{}
	if err == nil {
		w.worked = w.now()
	}
}
