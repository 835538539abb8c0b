package liveness

import (
	"context"
	"maps"
	"slices"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// askEach is how many machines are asked about one by one; more than that at
// once are answered by one listing.
const askEach = 10

// AskSoon has the provider asked about an instance's machine, with others if there are.
func (m *Monitor) AskSoon(id identity.ID) {
	m.mu.Lock()
	m.asks[id] = struct{}{}
	m.mu.Unlock()
	m.poke()
}

func (m *Monitor) takeAsks() []identity.ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := slices.Sorted(maps.Keys(m.asks))
	clear(m.asks)
	return ids
}

// ask finds out from the provider about the given instances, in the background.
// What a listing has said already it cannot say better: those that one has
// lacked are asked about one by one, however many they are.
func (m *Monitor) ask(ctx context.Context, ids []identity.ID) {
	var fresh []identity.ID
	for _, id := range ids {
		if m.unlisted(id) {
			m.opts.Go(func() { m.Ask(ctx, id) })
		} else {
			fresh = append(fresh, id)
		}
	}
	if len(fresh) > askEach {
		m.opts.List()
		return
	}
	for _, id := range fresh {
		m.opts.Go(func() { m.Ask(ctx, id) })
	}
}

// unlisted reports whether a listing has lacked the instance's machine since it
// was last seen.
func (m *Monitor) unlisted(id identity.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.signs[id]
	return s != nil && !s.absence().List.IsZero()
}

// Ask asks the provider about an instance's machine, and takes in what it says.
func (m *Monitor) Ask(ctx context.Context, id identity.ID) {
	row, ok := m.opts.Instances.Known(id)
	if !ok {
		return
	}
	asked := m.opts.Now()
	vm, err := m.opts.Provider.Get(ctx, driver.Ref{InstanceID: id, ProviderID: row.ProviderID})
	switch {
	case err == nil && vm.Status == driver.Deleted, driver.IsNotFound(err):
		m.ended(id, vm.Reason)
		m.Missing(id, fleet.ByGet, asked)
		if row.State == fleet.Pending {
			m.opts.List() // a create is given up only where a listing agrees
		}
	case err == nil:
		m.Observe(vm, asked)
	case !m.opts.Over(err) && ctx.Err() == nil:
		m.opts.Log.WarnContext(ctx, "get machine failed", "instance", id, "error", err)
	}
}
