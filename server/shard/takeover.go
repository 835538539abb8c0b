package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/server/fleet"
	"nstance.dev/server/groups"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/retry"
)

// takeOver makes this server know the shard: the leader's address moves here,
// and the cache is rebuilt from storage and one listing of the provider. A part
// that fails is tried again for as long as the lease lasts.
func (r *Term) takeOver(ctx context.Context) error {
	r.planner.cache.Reset()
	r.planner.liveness.Begin()
	r.planner.cache.PutTerm(layout.LeaderKey(r.opts.Shard), r.leadership.term)
	if err := r.planner.cache.Flush(ctx); err != nil {
		// A start after a crash waits out the lease then; nothing else is lost.
		r.opts.Log.WarnContext(ctx, "term not kept in the cache", "error", err)
	}
	r.leadership.tasks.Go(func() { r.address.Hold(r.leadership.ctx) })
	var known errgroup.Group
	known.Go(func() error { return r.persist(ctx, "read the operators", r.loadDrainers) })
	known.Go(func() error { return r.persist(ctx, "read the instance records", r.planner.instances.Load) })
	known.Go(func() error { return r.persist(ctx, "read the decisions", r.planner.decisions.Read) })
	if err := known.Wait(); err != nil {
		return err
	}
	if err := r.persist(ctx, "read the group file", r.planner.groups.Load); err != nil {
		return err
	}
	r.planner.decisions.Restore(ctx, func(id fleet.GroupID) bool { return mayExist(r.planner.groups, id) })
	if err := r.persist(ctx, "list the machines", r.seedFromProvider); err != nil {
		return err
	}
	if err := r.persist(ctx, "take back removals", r.planner.removals.CancelRevocable); err != nil {
		return err
	}
	if r.leadership.term > 1 {
		r.planner.removals.AfterAnother()
		r.planner.instances.NoteOversized(r.planner.cache.All(), func(group fleet.GroupID) int { return r.planner.groups.Group(group).Desired() })
	}
	r.planner.liveness.JudgeAll()
	return nil
}

// mayExist says whether a group stands somewhere, or may have stood in a group file that
// cannot be read: what was decided about it is not forgotten for a file that is repaired later.
func mayExist(known *groups.Store, id fleet.GroupID) bool {
	_, ok := known.Find(id)
	return ok || !known.Group(id).Deleted
}

// persist repeats a step of the take-over until it succeeds or cannot.
func (r *Term) persist(ctx context.Context, what string, step func(context.Context) error) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := step(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, lease.ErrSuperseded) || lost(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		r.opts.Log.WarnContext(ctx, "take-over waits", "step", what, "retry_in", wait, "error", err)
		if err := retry.Wait(ctx, wait); err != nil {
			return err
		}
	}
}

// seedFromProvider matches the provider's machines with the records.
func (r *Term) seedFromProvider(ctx context.Context) error {
	asked := r.now()
	machines, err := r.provider.List(ctx, r.owner())
	if err != nil {
		return err
	}
	for _, m := range machines {
		if m.InstanceID != "" {
			r.planner.liveness.Observe(m, asked)
		}
	}
	return nil
}

// loadDrainers reads who coordinates drains.
func (r *Term) loadDrainers(ctx context.Context) error {
	if r.opts.Drainers == nil {
		return nil
	}
	return r.opts.Drainers.Load(ctx)
}
