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
// What a listing has said already it cannot say better: those that one has
// lacked are asked about one by one, however many they are.
func (h *health) ask(ctx context.Context, ids []identity.ID) {
	var fresh []identity.ID
	for _, id := range ids {
		if h.unlisted(id) {
			h.r.tasks.Go(func() { h.askOne(ctx, id) })
		} else {
			fresh = append(fresh, id)
		}
	}
	if len(fresh) > askEach {
		h.r.collector.soon()
		return
	}
	for _, id := range fresh {
		h.r.tasks.Go(func() { h.askOne(ctx, id) })
	}
}

// unlisted reports whether a listing has lacked the instance's machine since it
// was last seen.
func (h *health) unlisted(id identity.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.signs[id]
	return s != nil && !s.absence().List.IsZero()
}

func (h *health) askOne(ctx context.Context, id identity.ID) {
	row, ok := h.r.instances.Known(id)
	if !ok {
		return
	}
	asked := h.r.now()
	m, err := h.r.provider.Get(ctx, refOf(row))
	switch {
	case err == nil && m.Status == driver.Deleted, driver.IsNotFound(err):
		h.ended(id, m.Reason)
		h.missing(id, fleet.ByGet, asked)
		if row.State == fleet.Pending {
			h.r.collector.soon() // a create is given up only where a listing agrees
		}
	case err == nil:
		h.r.observe(m, asked)
	case !h.r.stumble(err) && ctx.Err() == nil:
		h.r.log.WarnContext(ctx, "provider not asked", "instance", id, "error", err)
	}
}
