package shard

import (
	"context"
	"sync"
	"time"

	"nstance.dev/server/driver"
)

// ProviderTrouble says since when a leader has not reached its provider. The
// zero value is no trouble.
type ProviderTrouble struct {
	Since time.Time // of the first failed call after the last that worked
	Last  time.Time // of the latest failed call
	Tried int       // calls since then, all of them failed
}

// reach keeps account of whether the provider's calls come through. What the
// provider refuses came through; see [driver.Reached].
type reach struct {
	mu      sync.Mutex
	trouble ProviderTrouble
}

// outcome counts a call that began at the given time and whose answer, or lack
// of one, is here now.
func (r *reach) outcome(began, now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if driver.Reached(err) {
		r.trouble = ProviderTrouble{}
		return
	}
	if r.trouble.Tried == 0 {
		r.trouble.Since = began
	}
	r.trouble.Tried++
	r.trouble.Last = now
}

func (r *reach) now() ProviderTrouble {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trouble
}

// ProviderTrouble tells what this server's leadership, a take-over under way
// included, knows of the provider. Of a standby it is the zero value.
func (s *Shard) ProviderTrouble() ProviderTrouble {
	if r := s.leading.Load(); r != nil {
		return r.cloud.reach.now()
	}
	return ProviderTrouble{}
}

// AskProvider makes a leader try one provider call more, which may take so long
// and whose outcome ProviderTrouble counts. A standby does nothing.
func (s *Shard) AskProvider(within time.Duration) {
	r := s.leading.Load()
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, within)
	defer cancel()
	err := driver.Probe(ctx, r.cloud.get)
	if err != nil && r.ctx.Err() == nil {
		r.log.WarnContext(r.ctx, "provider not reached", "error", err)
	}
}
