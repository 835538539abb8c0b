package shard

import (
	"context"
	"errors"
	"nstance.dev/server/instances"
	"slices"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/retry"
)

// collector compares the provider's listing with what is known, at its interval
// and whenever many machines have to be looked at: it refreshes what is known,
// finds what is gone, and removes what was left over.
type collector struct {
	r    *Reign
	wake chan struct{} // has room for one

	mu     sync.Mutex
	memory fleet.Memory
	broken map[identity.ID]bool // records in quarantine
	alarm  bool                 // no delete may be sent
	losing bool                 // since the last alarm not every lost machine is replaced
	held   []Held
	ending map[string]bool // orphans whose delete is under way, by the provider's id
}

func newCollector(r *Reign) *collector {
	return &collector{r: r, wake: make(chan struct{}, 1), broken: map[identity.ID]bool{}, ending: map[string]bool{}}
}

// soon asks for a pass now.
func (c *collector) soon() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// unreadable notes an instance whose record is in quarantine.
func (c *collector) unreadable(id identity.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken[id] = true
}

// listingDoubted is why deletes are held, in words for tenants: how many machines
// the shard has is none of theirs (S12). The log counts them.
const listingDoubted = "the provider's listing lacks many machines at once: nothing is deleted until each is confirmed"

// alarmed says why deletes are held; empty if they are not.
func (c *collector) alarmed() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alarm {
		return listingDoubted
	}
	return ""
}

// recovering reports whether what a mass loss took is still being replaced.
func (c *collector) recovering() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.losing
}

// passGap is the least time between two passes, however often one is asked for.
const passGap = time.Second

// run makes a pass at every interval, and when asked to, until ctx ends.
func (c *collector) run(ctx context.Context) {
	var last time.Time
	for {
		timer := time.NewTimer(c.r.wanted.config().Server.GarbageCollection.Interval.Std())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-c.wake:
			timer.Stop()
			if retry.Wait(ctx, last.Add(passGap).Sub(c.r.now())) != nil {
				return
			}
		}
		last = c.r.now()
		if err := c.pass(ctx); err != nil && ctx.Err() == nil && !c.r.stumble(err) {
			c.r.log.WarnContext(ctx, "machines not listed; nothing is concluded from that", "error", err)
		}
		retention := c.r.wanted.config().Server.GarbageCollection.DeletedRecordRetention.Std()
		c.r.cache.Purge(c.r.now().Add(-retention))
	}
}

// pass makes one listing and acts on what it means.
func (c *collector) pass(ctx context.Context) error {
	listing := fleet.Listing{At: c.r.now()}
	machines, err := c.r.provider.List(ctx, c.r.owner())
	if err != nil {
		return err // a listing that failed proves nothing (F22)
	}
	for _, m := range machines {
		listing.VMs = append(listing.VMs, fleet.SeenVM{
			ID: m.InstanceID, RawID: m.RawID, ProviderID: m.ProviderID, Presence: presenceOf(m.Status),
		})
	}
	known := c.known()
	opts := fleet.CollectOptions{Lag: c.r.opts.Driver.Lag()}
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

func (c *collector) known() []fleet.Known {
	var known []fleet.Known
	for _, in := range c.r.cache.All() {
		known = append(known, fleet.Known{
			ID: in.ID, State: in.State, Power: in.Power, ProviderID: in.ProviderID, Created: c.r.health.sent(in),
		})
	}
	return known
}

// act carries out what a listing means.
func (c *collector) act(ctx context.Context, result fleet.Collection, machines []driver.Machine, asked time.Time) {
	byID := make(map[identity.ID]driver.Machine, len(machines))
	for _, m := range machines {
		byID[m.InstanceID] = m
	}
	for _, match := range result.Matches {
		if m := byID[match.ID]; m.ProviderID == match.ProviderID {
			c.r.observe(m, asked)
		}
	}
	for _, id := range result.Absent {
		c.r.health.missing(id, fleet.ByList, asked)
	}
	for _, id := range result.Gone {
		c.r.health.noteGone(id)
	}
	for _, id := range result.Confirm {
		c.r.tasks.Go(func() { c.r.health.askOne(ctx, id) })
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
func (c *collector) settle(ctx context.Context, result fleet.Collection, machines []driver.Machine) {
	c.mu.Lock()
	before, heldBefore := c.alarm, c.held
	held := heldNow(result.Held, machines, heldBefore, c.r.now())
	c.alarm, c.held = result.Alarm != "", held
	c.losing = result.Alarm != "" || c.losing && c.r.anyLost()
	c.mu.Unlock()
	set(c.r.opts.Metrics.deletesHeld, result.Alarm != "")
	c.r.opts.Metrics.heldVMs.Set(float64(len(result.Held)))
	switch {
	case result.Alarm != "" && !before:
		c.r.log.ErrorContext(ctx, "deletes are held", "reason", result.Alarm)
	case result.Alarm == "" && before:
		c.r.log.InfoContext(ctx, "deletes go on")
		c.r.enqueueAll()
	}
	c.reportHeld(ctx, held, heldBefore)
}

// anyLost reports whether an instance whose VM is gone waits for its replacement.
func (r *Reign) anyLost() bool {
	for _, in := range r.cache.All() {
		if in.State.Sick() && in.Power == fleet.Gone {
			return true
		}
	}
	return false
}

// lookUp reads what storage says of machines that no row stands for.
func (c *collector) lookUp(ctx context.Context, ids []identity.ID, machines []driver.Machine) map[identity.ID]fleet.Record {
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
func (c *collector) record(ctx context.Context, id identity.ID, tenant string) fleet.Record {
	if rec, ok := c.r.instances.Record(id); ok {
		return kindOfRecord(rec)
	}
	c.mu.Lock()
	broken := c.broken[id]
	c.mu.Unlock()
	if broken {
		return fleet.RecordUnreadable
	}
	tenants := []string{identity.DefaultTenant}
	for name := range c.r.wanted.config().Tenants {
		tenants = append(tenants, name)
	}
	if identity.ValidateName(tenant) == nil && !slices.Contains(tenants, tenant) {
		tenants = append(tenants, tenant)
	}
	for _, tenant := range tenants {
		rec, err := c.r.instances.Fetch(ctx, tenant, id)
		switch {
		case errors.Is(err, objectstore.ErrNotFound):
			continue
		case errors.Is(err, instances.ErrUnreadable):
			return fleet.RecordUnreadable
		case err != nil:
			c.r.stumble(err)
			return fleet.RecordUnread
		}
		return kindOfRecord(rec)
	}
	return fleet.RecordNone
}

func kindOfRecord(rec bucket.InstanceRecord) fleet.Record {
	if rec.Status == bucket.StatusDeleting {
		return fleet.RecordTombstone
	}
	return fleet.RecordLive
}

// restore takes an instance in that storage and the provider have, and the
// cache has not.
func (c *collector) restore(ctx context.Context, id identity.ID, m driver.Machine, asked time.Time) {
	if _, err := c.r.instances.Restore(id); err != nil {
		c.r.log.ErrorContext(ctx, "instance not taken in", "instance", id, "error", err)
		return
	}
	c.r.observe(m, asked)
}

// deleteOrphan removes a machine whose instance had ended. While its group is
// paused, or listings are not believed, it stays; a later pass sees it again.
func (c *collector) deleteOrphan(ctx context.Context, vm fleet.SeenVM) {
	rec, _ := c.r.instances.Record(vm.ID)
	group := instances.GroupOf(rec)
	if c.r.deletesHeld(group) || !c.beginsEnding(vm.ProviderID) {
		return
	}
	c.r.log.WarnContext(ctx, "deleting an orphan", "instance", vm.ID, "provider_id", vm.ProviderID)
	c.r.opts.Metrics.orphans.Inc()
	c.r.tasks.Go(func() {
		defer c.endsEnding(vm.ProviderID)
		if c.r.provider.WaitDelete(c.r.ctx, group) != nil || c.r.deletesHeld(group) {
			return
		}
		err := c.r.provider.Delete(c.r.ctx, group, driver.Ref{InstanceID: vm.ID, ProviderID: vm.ProviderID})
		if err != nil && !c.r.stumble(err) && ctx.Err() == nil {
			c.r.log.WarnContext(ctx, "orphan not deleted; the next pass tries again", "instance", vm.ID, "error", err)
		}
	})
}

// beginsEnding notes that the delete of an orphan is under way; false: it was before. One
// that waits for its token is seen by many passes.
func (c *collector) beginsEnding(providerID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending[providerID] {
		return false
	}
	c.ending[providerID] = true
	return true
}

func (c *collector) endsEnding(providerID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ending, providerID)
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
