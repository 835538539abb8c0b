package liveness

import (
	"context"
	"time"
)

// Run judges what falls due and asks the provider, until ctx ends.
func (m *Monitor) Run(ctx context.Context) {
	for {
		ids, next := m.ripe(m.opts.Now())
		for _, id := range ids {
			m.Judge(id)
		}
		if asks := m.takeAsks(); len(asks) > 0 {
			m.ask(ctx, asks)
		}
		if look := m.weighSilence(m.opts.Now()); !look.IsZero() {
			next = min(next, max(look.Sub(m.opts.Now()), time.Millisecond))
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-m.wake:
			timer.Stop()
		}
	}
}
