package shard

import (
	"context"
	"slices"
	"strings"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// Held is a machine with our tags that is left alone, because no record says what
// it is. Its metadata is the provider's word and proves nothing.
type Held struct {
	fleet.HeldVM
	Machine driver.Machine // as it was last listed
	Since   time.Time      // when this leader first saw it so
}

// Held returns the machines that are held, in the order of their provider ids.
func (r *Reign) Held() []Held {
	r.collector.mu.Lock()
	defer r.collector.mu.Unlock()
	return slices.SortedFunc(slices.Values(r.collector.held), func(a, b Held) int {
		return strings.Compare(a.VM.ProviderID, b.VM.ProviderID)
	})
}

// holds finds a machine among those that are held.
func (c *collector) holds(providerID string) (Held, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.held, func(h Held) bool { return h.VM.ProviderID == providerID })
	if i < 0 {
		return Held{}, false
	}
	return c.held[i], true
}

// release takes a machine that was adopted off the list at once.
func (c *collector) release(providerID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = slices.DeleteFunc(slices.Clone(c.held), func(h Held) bool { return h.VM.ProviderID == providerID })
	c.r.opts.Metrics.heldVMs.Set(float64(len(c.held)))
}

// heldNow joins what a collection holds with what was listed of it. One that was
// held before has been so since then.
func heldNow(vms []fleet.HeldVM, machines []driver.Machine, before []Held, now time.Time) []Held {
	listed := make(map[string]driver.Machine, len(vms))
	for _, m := range machines {
		listed[m.ProviderID] = m
	}
	since := make(map[string]time.Time, len(before))
	for _, h := range before {
		since[h.VM.ProviderID] = h.Since
	}
	var held []Held
	for _, vm := range vms {
		h := Held{HeldVM: vm, Machine: listed[vm.VM.ProviderID], Since: now}
		if first, ok := since[vm.VM.ProviderID]; ok {
			h.Since = first
		}
		held = append(held, h)
	}
	return held
}

// reportHeld raises the alarm for machines that were not held before, or for
// another cause.
func (c *collector) reportHeld(ctx context.Context, held, before []Held) {
	for _, h := range held {
		known := slices.ContainsFunc(before, func(b Held) bool {
			return b.VM.ProviderID == h.VM.ProviderID && b.Why == h.Why
		})
		if !known {
			c.r.log.ErrorContext(ctx, "machine held: it is never deleted by us", "provider_id", h.VM.ProviderID,
				"tag", h.VM.RawID, "cause", h.Cause, "reason", h.Why)
		}
	}
}
