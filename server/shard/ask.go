package shard

import (
	"context"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// askEach is how many machines are asked about one by one; more than that at
// once are answered by one listing.
const askEach = 10

func (h *health) askSoon(id identity.ID) {
	h.mu.Lock()
	h.asks[id] = struct{}{}
	h.mu.Unlock()
	h.poke()
}

func (h *health) takeAsks() []identity.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := make([]identity.ID, 0, len(h.asks))
	for id := range h.asks {
		ids = append(ids, id)
	}
	clear(h.asks)
	return ids
}

// ask finds out from the provider about the given instances, in the background.
func (h *health) ask(ctx context.Context, ids []identity.ID) {
	if len(ids) > askEach {
		h.r.collector.soon()
		return
	}
	for _, id := range ids {
		h.r.tasks.Go(func() { h.askOne(ctx, id) })
	}
}

func (h *health) askOne(ctx context.Context, id identity.ID) {
	row, ok := h.r.known(id)
	if !ok {
		return
	}
	asked := h.r.now()
	m, err := h.r.cloud.get(ctx, refOf(row))
	switch {
	case err == nil && m.Status == driver.Deleted, driver.IsNotFound(err):
		h.missing(id, fleet.ByGet)
	case err == nil:
		h.r.observe(m, asked)
	case !h.r.stumble(err) && ctx.Err() == nil:
		h.r.log.WarnContext(ctx, "provider not asked", "instance", id, "error", err)
	}
}
