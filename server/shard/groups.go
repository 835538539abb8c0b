package shard

import (
	"context"
	"slices"

	"nstance.dev/server/config/effective"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
	"nstance.dev/server/groups"
)

// newGroups is what the groups of a term should be.
func newGroups(r *Term, cfg *effective.Config) *groups.Store {
	p := r.planner
	return groups.New(groups.Options{
		Objects: r.opts.Store, Cache: p.cache, Instances: p.instances, Shard: r.opts.Shard, Term: r.leadership.term,
		Writes: underLease(r.opts.Jitter), Now: r.opts.Now, Log: r.opts.Log,
		Changed: r.groupChanged, Over: r.leadership.endIfOver, Ended: r.leadership.ctx.Done(),
		Go: r.leadership.background,
	}, cfg)
}

// groupChanged tells everybody whom it concerns what has become of a group.
func (r *Term) groupChanged(c groups.Change) {
	id := c.Group
	r.demand.SupplyChanged()
	switch c.Event {
	case groups.Updated:
		if c.Before != nil {
			r.groupUpdated(id, c.Before, c.After)
		}
	case groups.Removed:
		r.opts.Metrics.launches.GroupGone(id)
		r.planner.status.Summaries.Drop(id)
		r.traces.Settled(id)
	case groups.Unlocked:
		r.events.Error(id, "", explain.Unlocked, explain.UnlockedMessage(id))
	}
}

func (r *Term) groupUpdated(id fleet.GroupID, before, after *effective.Group) {
	if !slices.Equal(before.LoadBalancers, after.LoadBalancers) {
		r.touchGroup(id)
	}
	if before.ETag != after.ETag {
		r.planner.launcher.Edited(id)
	}
	if before.RuntimeHash != after.RuntimeHash {
		r.planner.files.Changed(id)
	}
}

// touchGroup has the instances of a group looked at whose load balancers have
// changed.
func (r *Term) touchGroup(group fleet.GroupID) {
	if r.balancers == nil {
		return
	}
	for _, in := range r.planner.cache.Group(group) {
		r.balancers.Touch(in.ID)
	}
}

// reconfigure puts another configuration in force, and has every group looked at again.
func (r *Term) reconfigure(ctx context.Context, cfg *effective.Config) error {
	changed, err := r.planner.groups.Apply(ctx, cfg)
	if err != nil {
		return err
	}
	for _, id := range changed {
		r.events.Group(id)
	}
	r.planner.launcher.Configure(cfg)
	r.balancers.Refresh()
	r.demand.SupplyChanged()
	r.queue.enqueueAll()
	return nil
}
