package shard

import (
	"context"
	"errors"
	"fmt"
	"nstance.dev/server/lease"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/retry"
)

// writesAtOnce is how many removals are taken back in parallel at a take-over.
const writesAtOnce = 32

// takeOver makes this server know the shard: the leader's address moves here,
// and the cache is rebuilt from storage and one listing of the provider. A part
// that fails is tried again for as long as the lease lasts.
func (r *Reign) takeOver(ctx context.Context) error {
	r.cache.Reset()
	r.health.begin()
	r.cache.PutTerm(bucket.LeaderKey(r.opts.Shard), r.term)
	if err := r.cache.Flush(ctx); err != nil {
		// A start after a crash waits out the lease then; nothing else is lost.
		r.log.WarnContext(ctx, "term not kept in the cache", "error", err)
	}
	r.tasks.Go(func() { r.address.Hold(r.ctx) })
	var known errgroup.Group
	known.Go(func() error { return r.persist(ctx, "read the operators", r.loadDrainers) })
	known.Go(func() error { return r.persist(ctx, "read the instance records", r.instances.Load) })
	if err := known.Wait(); err != nil {
		return err
	}
	if err := r.persist(ctx, "read the group file", r.wanted.load); err != nil {
		return err
	}
	if err := r.persist(ctx, "list the machines", r.seedFromProvider); err != nil {
		return err
	}
	if err := r.persist(ctx, "take back removals", r.reconsider); err != nil {
		return err
	}
	if r.term > 1 {
		r.deletions.shutFor(r.now()) // nobody knows what the last leader did in its last minute
		r.instances.Inherits(r.cache.All(), func(group fleet.GroupID) int { return r.wanted.known(group).Desired() })
	}
	r.health.takeOver()
	return nil
}

// persist repeats a step of the take-over until it succeeds or cannot.
func (r *Reign) persist(ctx context.Context, what string, step func(context.Context) error) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := step(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, lease.ErrSuperseded) || lost(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		r.log.WarnContext(ctx, "take-over waits", "step", what, "retry_in", wait, "error", err)
		if err := retry.Wait(ctx, wait); err != nil {
			return err
		}
	}
}

// seedFromProvider matches the provider's machines with the records.
func (r *Reign) seedFromProvider(ctx context.Context) error {
	asked := r.now()
	machines, err := r.provider.List(ctx, r.owner())
	if err != nil {
		return err
	}
	for _, m := range machines {
		if m.InstanceID != "" {
			r.observe(m, asked)
		}
	}
	return nil
}

// observe notes what the provider says about one of our machines when it was
// asked at the given time. It reports whether the machine is known.
func (r *Reign) observe(m driver.Machine, asked time.Time) bool {
	now, stopped := r.now(), false
	row, err := r.instances.Note(m.InstanceID, func(in *cache.Instance) error {
		if in.State == fleet.Deleted {
			return nil
		}
		in.ProviderID, in.ProviderStatus, in.ProviderSeenAt = m.ProviderID, string(m.Status), now
		if in.State != fleet.Deleting { // else its end is our own doing
			stopped = in.Power != fleet.Down && m.Status.Down()
			in.Power = powerOf(m.Status)
		}
		if in.RegisteredAt.IsZero() {
			fillRowAddresses(in, m)
		}
		if in.State == fleet.Pending {
			state, err := in.State.On(fleet.EventAccepted)
			if err != nil {
				return err
			}
			in.State = state
		}
		return nil
	})
	if err != nil {
		return false
	}
	r.health.seen(row, m.Reason, asked)
	if stopped && row.State.Leaving() {
		r.Enqueue(row.Group) // nothing is left to drain
	}
	return true
}

func powerOf(status driver.Status) fleet.Power {
	if status.Down() {
		return fleet.Down
	}
	return fleet.Up
}
