package garbage

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/retry"
)

// Collector compares the provider's listing with what is known, at its interval
// and whenever many machines have to be looked at: it refreshes what is known,
// finds what is gone, and removes what was left over. It is safe for concurrent use.
type Collector struct {
	opts Options
	wake chan struct{} // has room for one

	mu         sync.Mutex
	memory     fleet.Memory
	broken     map[identity.ID]bool // records in quarantine
	alarm      bool                 // no delete may be sent
	recovering bool                 // since the last alarm not every lost machine is replaced
	unmanaged  []Unmanaged
	deleting   map[string]bool // orphans whose delete is under way, by the provider's id
}

// New returns a collector that has seen no listing. It starts nothing.
func New(opts Options) *Collector {
	return &Collector{opts: opts, wake: make(chan struct{}, 1), broken: map[identity.ID]bool{}, deleting: map[string]bool{}}
}

// Soon asks for a pass now.
func (c *Collector) Soon() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Unreadable notes an instance whose record is in quarantine.
func (c *Collector) Unreadable(id identity.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken[id] = true
}

// listingDoubted is why deletes are stopped, in words for tenants: how many machines
// the shard has is none of theirs (S12). The log counts them.
const listingDoubted = "the provider's listing lacks many machines at once: nothing is deleted until each is confirmed"

// Alarm says why deletes are stopped; empty if they are not.
func (c *Collector) Alarm() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alarm {
		return listingDoubted
	}
	return ""
}

// Recovering reports whether what a mass loss took is still being replaced.
func (c *Collector) Recovering() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recovering
}

// DeletesBlocked reports whether no delete may be sent in a group, not even one that
// was under way: the provider's listing is not to be believed (S8), or somebody has
// paused the group (S23).
func (c *Collector) DeletesBlocked(group fleet.GroupID) bool {
	return c.Alarm() != "" || c.opts.Paused(group)
}

// passGap is the least time between two passes, however often one is asked for.
const passGap = time.Second

// Run makes a pass at every interval, and when asked to, until ctx ends.
func (c *Collector) Run(ctx context.Context) {
	var last time.Time
	for {
		timer := time.NewTimer(c.opts.Config().Server.GarbageCollection.Interval.Std())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-c.wake:
			timer.Stop()
			if retry.Wait(ctx, last.Add(passGap).Sub(c.opts.Now())) != nil {
				return
			}
		}
		last = c.opts.Now()
		if err := c.pass(ctx); err != nil && ctx.Err() == nil && !c.opts.Over(err) {
			c.opts.Log.WarnContext(ctx, "machines not listed; nothing is concluded from that", "error", err)
		}
		retention := c.opts.Config().Server.GarbageCollection.DeletedRecordRetention.Std()
		c.opts.Cache.Purge(c.opts.Now().Add(-retention))
	}
}

// pass makes one listing and acts on what it means.
func (c *Collector) pass(ctx context.Context) error {
	listing := fleet.Listing{At: c.opts.Now()}
	machines, err := c.opts.Provider.List(ctx, c.opts.Owner)
	if err != nil {
		return err // a listing that failed proves nothing (F22)
	}
	for _, m := range machines {
		listing.VMs = append(listing.VMs, fleet.SeenVM{
			ID: m.InstanceID, RawID: m.RawID, ProviderID: m.ProviderID, Presence: presenceOf(m.Status),
		})
	}
	known := c.known()
	opts := fleet.CollectOptions{Lag: c.opts.Lag()}
	c.mu.Lock()
	memory := c.memory
	c.mu.Unlock()
	result, next := fleet.Collect(listing, known, memory, opts)
	if len(result.Unread) > 0 {
		listing.Records = c.lookUp(ctx, result.Unread, machines)
		result, next = fleet.Collect(listing, known, memory, opts)
	}
	c.mu.Lock()
	c.memory = next
	c.mu.Unlock()
	c.act(ctx, result, machines, listing.At)
	return nil
}

func (c *Collector) known() []fleet.Known {
	var known []fleet.Known
	for _, in := range c.opts.Cache.All() {
		known = append(known, fleet.Known{
			ID: in.ID, State: in.State, Power: in.Power, ProviderID: in.ProviderID, Created: c.opts.Liveness.LastCreate(in),
		})
	}
	return known
}

// act carries out what a listing means.
func (c *Collector) act(ctx context.Context, result fleet.Collection, machines []driver.Machine, asked time.Time) {
	byID := make(map[identity.ID]driver.Machine, len(machines))
	for _, m := range machines {
		byID[m.InstanceID] = m
	}
	for _, match := range result.Matches {
		if m := byID[match.ID]; m.ProviderID == match.ProviderID {
			c.opts.Liveness.Observe(m, asked)
		}
	}
	for _, id := range result.Absent {
		c.opts.Liveness.Missing(id, fleet.ByList, asked)
	}
	for _, id := range result.Gone {
		c.opts.Liveness.Gone(id)
	}
	for _, id := range result.Confirm {
		c.opts.Go(func(context.Context) { c.opts.Liveness.Ask(ctx, id) })
	}
	for _, id := range result.Restore {
		c.restore(ctx, id, byID[id], asked)
	}
	c.settle(ctx, result, machines)
	for _, vm := range result.Orphans {
		c.deleteOrphan(ctx, vm)
	}
}

// settle keeps and reports what the listing leaves open.
func (c *Collector) settle(ctx context.Context, result fleet.Collection, machines []driver.Machine) {
	c.mu.Lock()
	before, unmanagedBefore := c.alarm, c.unmanaged
	unmanaged := unmanagedNow(result.Unmanaged, machines, unmanagedBefore, c.opts.Now())
	c.alarm, c.unmanaged = result.Alarm != "", unmanaged
	c.recovering = result.Alarm != "" || c.recovering && c.anyLost()
	c.mu.Unlock()
	switch {
	case result.Alarm != "" && !before:
		c.opts.Log.ErrorContext(ctx, "deletes stopped: the provider's list misses too many known machines", "reason", result.Alarm)
	case result.Alarm == "" && before:
		c.opts.Log.InfoContext(ctx, "deletes resumed: the provider's listing is plausible again")
		c.opts.DeletesGoOn()
	}
	c.reportUnmanaged(ctx, unmanaged, unmanagedBefore)
}

// anyLost reports whether an instance whose VM is gone waits for its replacement.
func (c *Collector) anyLost() bool {
	for _, in := range c.opts.Cache.All() {
		if in.State.Sick() && in.Power == fleet.Gone {
			return true
		}
	}
	return false
}

// lookUp reads what storage says of machines that no row stands for.
func (c *Collector) lookUp(ctx context.Context, ids []identity.ID, machines []driver.Machine) map[identity.ID]fleet.Record {
	tenants := map[identity.ID]string{}
	for _, m := range machines {
		tenants[m.InstanceID] = m.Tenant
	}
	found := make(map[identity.ID]fleet.Record, len(ids))
	for _, id := range ids {
		found[id] = c.record(ctx, id, tenants[id])
	}
	return found
}

// record finds the record of an instance, whose tenant only a tag claims.
func (c *Collector) record(ctx context.Context, id identity.ID, tenant string) fleet.Record {
	if rec, ok := c.opts.Instances.Record(id); ok {
		return kindOfRecord(rec)
	}
	c.mu.Lock()
	broken := c.broken[id]
	c.mu.Unlock()
	if broken {
		return fleet.RecordUnreadable
	}
	tenants := []string{identity.DefaultTenant}
	for name := range c.opts.Config().Tenants {
		tenants = append(tenants, name)
	}
	if identity.ValidateName(tenant) == nil && !slices.Contains(tenants, tenant) {
		tenants = append(tenants, tenant)
	}
	for _, tenant := range tenants {
		rec, err := c.opts.Instances.Fetch(ctx, tenant, id)
		switch {
		case errors.Is(err, objectstore.ErrNotFound):
			continue
		case errors.Is(err, instances.ErrUnreadable):
			return fleet.RecordUnreadable
		case err != nil:
			c.opts.Over(err)
			return fleet.RecordUnread
		}
		return kindOfRecord(rec)
	}
	return fleet.RecordNone
}

func kindOfRecord(rec layout.InstanceRecord) fleet.Record {
	if rec.Status == layout.StatusDeleting {
		return fleet.RecordTombstone
	}
	return fleet.RecordLive
}

// restore takes an instance in that storage and the provider have, and the
// cache has not.
func (c *Collector) restore(ctx context.Context, id identity.ID, m driver.Machine, asked time.Time) {
	if _, err := c.opts.Instances.Restore(id); err != nil {
		c.opts.Log.ErrorContext(ctx, "instance not restored from its record", "instance", id, "error", err)
		return
	}
	c.opts.Liveness.Observe(m, asked)
}

// deleteOrphan removes a machine whose instance had ended. While its group is
// paused, or listings are not believed, it stays; a later pass sees it again.
func (c *Collector) deleteOrphan(ctx context.Context, vm fleet.SeenVM) {
	rec, _ := c.opts.Instances.Record(vm.ID)
	group := instances.GroupOf(rec)
	if c.DeletesBlocked(group) || !c.beginDelete(vm.ProviderID) {
		return
	}
	c.opts.Log.WarnContext(ctx, "deleting leftover machine of an ended instance", "instance", vm.ID, "provider_id", vm.ProviderID)
	c.opts.Metrics.orphans.Inc()
	c.opts.Go(func(term context.Context) {
		defer c.endDelete(vm.ProviderID)
		if c.opts.Provider.WaitDelete(term, group) != nil || c.DeletesBlocked(group) {
			return
		}
		err := c.opts.Provider.Delete(term, group, driver.Ref{InstanceID: vm.ID, ProviderID: vm.ProviderID})
		if err != nil && !c.opts.Over(err) && ctx.Err() == nil {
			c.opts.Log.WarnContext(ctx, "leftover machine not deleted; the next pass tries again", "instance", vm.ID, "error", err)
		}
	})
}

// beginDelete notes that the delete of an orphan is under way; false: it was before. One
// that waits for its token is seen by many passes.
func (c *Collector) beginDelete(providerID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deleting[providerID] {
		return false
	}
	c.deleting[providerID] = true
	return true
}

func (c *Collector) endDelete(providerID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.deleting, providerID)
}

func presenceOf(status driver.Status) fleet.Presence {
	switch {
	case status.Down():
		return fleet.PresenceDown
	case status == driver.Unknown:
		return fleet.PresenceUnknown
	default:
		return fleet.PresenceUp
	}
}
