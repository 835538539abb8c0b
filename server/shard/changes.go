package shard

import (
	"context"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
)

func newInstances(r *Reign) *instances.Store {
	return instances.New(instances.Options{
		Objects: r.opts.Store, Cache: r.cache, Shard: r.opts.Shard, Term: r.term, Writes: underLease(r.opts.Jitter),
		Now: r.now, Log: r.log, Changed: r.instanceChanged, Unreadable: r.quarantine, Over: r.stumble,
	})
}

// instanceChanged tells everybody whom it concerns what has become of an instance, and has
// its group planned again where that may depend on it.
func (r *Reign) instanceChanged(c instances.Change) {
	in := c.After
	switch c.Event {
	case instances.Created:
		status := "created"
		if in.State == fleet.Running {
			status = "registered" // it was adopted
		}
		r.events.instance(r.cache, in.ID, status)
		return // its group was planned for it
	case instances.Registered:
		r.health.registered(in.ID)
		r.events.instance(r.cache, in.ID, "registered")
	case instances.Condemned:
		r.announceRemoval(in.ID)
	case instances.Ended:
		r.letGo(in.ID)
		r.events.instance(r.cache, in.ID, "deleted")
	case instances.Lost:
		r.log.Error("record deleted by somebody else: the machine is held until it is adopted", "instance", in.ID,
			"tenant", in.Group.Tenant, "group", in.Group.Name)
		r.events.failure(r.cache, in.Group, in.ID, string(driver.Invalid), "the record of this instance was deleted in storage; its machine is held", r.now())
		r.letGo(in.ID)
		r.collector.soon()
	case instances.Updated:
		if b := c.Before; in.Removal == b.Removal && in.ReplaceFirst == b.ReplaceFirst && in.SkipDrain == b.SkipDrain {
			return // no plan depends on the rest
		}
	case instances.Tombstone:
		r.tasks.Go(func() { r.bury(r.ctx, in.ID, in.DeletedAt.Add(r.tombstoneTime()).Sub(r.now())) })
		return
	case instances.Found, instances.Restored:
	}
	r.Enqueue(in.Group)
}

// letGo drops what is kept for an instance that there is no more.
func (r *Reign) letGo(id identity.ID) {
	r.sessions.end(id)
	r.health.forget(id)
	r.balancers.Touch(id)
	r.files.Forget(id)
}

// quarantine reports a record that is there and cannot be understood.
func (r *Reign) quarantine(ctx context.Context, key string, err error) {
	r.opts.Metrics.quarantined()
	r.log.ErrorContext(ctx, "instance record quarantined: it is left alone until somebody repairs it", "key", key, "error", err)
	_, tenant, id, parseErr := bucket.ParseInstanceKey(key)
	if parseErr != nil {
		return
	}
	r.collector.unreadable(id)
	r.events.failure(r.cache, fleet.GroupID{Tenant: tenant}, id, string(driver.Invalid), "the record of this instance cannot be read: "+err.Error(), r.now())
}
