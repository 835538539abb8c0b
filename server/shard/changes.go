package shard

import (
	"context"
	"fmt"

	"nstance.dev/protos/identity"
	"nstance.dev/server/balancers"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
	"nstance.dev/server/layout"
)

func newInstances(r *Term) *instances.Store {
	return instances.New(instances.Options{
		Objects: r.opts.Store, Cache: r.planner.cache, Shard: r.opts.Shard, Term: r.leadership.term, Writes: underLease(r.opts.Jitter),
		Now: r.opts.Now, Log: r.opts.Log, Changed: r.instanceChanged, Unreadable: r.quarantine, Over: r.leadership.endIfOver,
	})
}

// instanceChanged tells everybody whom it concerns what has become of an instance, and has
// its group planned again where that may depend on it.
func (r *Term) instanceChanged(c instances.Change) {
	in := c.After
	r.demand.Changed(in.ID)
	switch c.Event {
	case instances.Created:
		status := "created"
		if in.State == fleet.Running {
			status = "registered" // it was adopted
			r.machines.Look(in.ID)
		}
		r.events.Instance(in.ID, status)
		return // its group was planned for it
	case instances.Registered:
		r.planner.liveness.Registered(in.ID)
		r.events.Instance(in.ID, "registered")
	case instances.Condemned:
		r.planner.removals.Announce(in.ID)
	case instances.Ended:
		r.forget(in.ID)
		r.events.Instance(in.ID, "deleted")
	case instances.Lost:
		r.opts.Log.Error("record deleted by another client: the machine is unmanaged until it is adopted", "instance", in.ID,
			"tenant", in.Group.Tenant, "group", in.Group.Name)
		r.events.Error(in.Group, in.ID, string(driver.Invalid), "the record of this instance was deleted in storage; its machine is unmanaged")
		r.forget(in.ID)
		r.planner.collector.Soon()
	case instances.Updated:
		if in.Machine != c.Before.Machine {
			r.events.Instance(in.ID, "binding")
		}
		if in.Hold != c.Before.Hold {
			r.planner.liveness.Judge(in.ID)
			r.events.Instance(in.ID, "hold")
		}
		if b := c.Before; in.Hold == b.Hold && in.Removal == b.Removal && in.ReplaceFirst == b.ReplaceFirst && in.SkipDrain == b.SkipDrain {
			return // no plan depends on the rest
		}
	case instances.Tombstone:
		r.planner.removals.DeleteRecordLater(in)
		return
	case instances.Found, instances.RemovalCancelled:
		r.machines.Look(in.ID)
	}
	r.queue.Enqueue(in.Group)
}

// balancerFailed reports a call about a load balancer that failed, where that is news.
func (r *Term) balancerFailed(id identity.ID, key string, op balancers.Op, err error, news bool) {
	if r.leadership.endIfOver(err) {
		return
	}
	kind := driver.ClassOf(err)
	r.opts.Metrics.balancerFailed(string(op), kind)
	r.opts.Log.Warn("load balancer not updated", "load_balancer", key, "operation", op, "instance", id, "class", kind, "error", err)
	if row, ok := r.planner.cache.Instance(id); ok && news {
		r.events.Error(row.Group, id, string(kind), fmt.Sprintf("load balancer %q: %s: %v", key, op, err))
	}
}

// forget drops what is kept for an instance that no longer exists.
func (r *Term) forget(id identity.ID) {
	r.agents.End(id)
	r.planner.liveness.Forget(id)
	r.balancers.Touch(id)
	r.planner.files.Forget(id)
	r.machines.Forget(id)
}

// quarantine reports a record that is there and cannot be understood.
func (r *Term) quarantine(ctx context.Context, key string, err error) {
	r.opts.Metrics.quarantined()
	r.opts.Log.ErrorContext(ctx, "instance record quarantined: it is left alone until an administrator repairs it", "key", key, "error", err)
	_, tenant, id, parseErr := layout.ParseInstanceKey(key)
	if parseErr != nil {
		return
	}
	r.planner.collector.Unreadable(id)
	r.events.Error(fleet.GroupID{Tenant: tenant}, id, string(driver.Invalid), "the record of this instance cannot be read: "+err.Error())
}
