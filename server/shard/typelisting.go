package shard

import (
	"context"
	"time"

	"nstance.dev/server/driver"
)

// listTypes keeps the catalogue of machine types, until ctx ends.
func (r *Reign) listTypes(ctx context.Context) {
	if !r.provider.ListsTypes() {
		return
	}
	for {
		timer := time.NewTimer(r.catalog.Due().Sub(r.now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		list, err := r.provider.ListTypes(ctx)
		if r.stumble(err) || ctx.Err() != nil {
			return
		}
		if err != nil {
			r.catalog.Failed(r.now())
			r.log.WarnContext(ctx, "machine types not listed; what groups offer is shown as it was known", "class", driver.KindOf(err), "error", err)
			continue
		}
		if r.catalog.Listed(list, r.now()) {
			for id := range r.wanted.all() {
				r.publishGroup(id)
			}
		}
	}
}
