package garbage

import (
	"context"
	"slices"
	"strings"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// Unmanaged is a machine with our tags that is left alone, because no record says what
// it is. Its metadata is the provider's word and proves nothing.
type Unmanaged struct {
	fleet.UnmanagedVM
	Machine driver.Machine // as it was last listed
	Since   time.Time      // when this leader first saw it so
}

// Unmanaged returns the unmanaged machines, in the order of their provider ids.
func (c *Collector) Unmanaged() []Unmanaged {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(slices.Values(c.unmanaged), func(a, b Unmanaged) int {
		return strings.Compare(a.VM.ProviderID, b.VM.ProviderID)
	})
}

// Find finds an unmanaged machine by its provider ID.
func (c *Collector) Find(providerID string) (Unmanaged, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.unmanaged, func(u Unmanaged) bool { return u.VM.ProviderID == providerID })
	if i < 0 {
		return Unmanaged{}, false
	}
	return c.unmanaged[i], true
}

// Release takes a machine that was adopted off the list at once.
func (c *Collector) Release(providerID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unmanaged = slices.DeleteFunc(slices.Clone(c.unmanaged), func(u Unmanaged) bool { return u.VM.ProviderID == providerID })
}

// unmanagedNow joins what a collection holds with what was listed of it. One that was
// unmanaged before has been so since then.
func unmanagedNow(vms []fleet.UnmanagedVM, machines []driver.Machine, before []Unmanaged, now time.Time) []Unmanaged {
	listed := make(map[string]driver.Machine, len(vms))
	for _, m := range machines {
		listed[m.ProviderID] = m
	}
	since := make(map[string]time.Time, len(before))
	for _, u := range before {
		since[u.VM.ProviderID] = u.Since
	}
	var unmanaged []Unmanaged
	for _, vm := range vms {
		u := Unmanaged{UnmanagedVM: vm, Machine: listed[vm.VM.ProviderID], Since: now}
		if first, ok := since[vm.VM.ProviderID]; ok {
			u.Since = first
		}
		unmanaged = append(unmanaged, u)
	}
	return unmanaged
}

// reportUnmanaged raises the alarm for machines that were not unmanaged before, or are for
// another cause.
func (c *Collector) reportUnmanaged(ctx context.Context, unmanaged, before []Unmanaged) {
	for _, u := range unmanaged {
		known := slices.ContainsFunc(before, func(b Unmanaged) bool {
			return b.VM.ProviderID == u.VM.ProviderID && b.Why == u.Why
		})
		if !known {
			c.opts.Log.ErrorContext(ctx, "machine unmanaged: it is never deleted by us", "provider_id", u.VM.ProviderID,
				"tag", u.VM.RawID, "cause", u.Cause, "reason", u.Why)
		}
	}
}
