package shard

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
)

// reconsider takes back the removals that rest on a former leader's judgement of an
// instance's health alone, and of which nothing has come yet: health is judged again by
// each leader. Where the VM runs, the instance counts as running until the time for its
// first report is over, like every other; what has taken its place meanwhile is not too
// many until then.
func (r *Reign) reconsider(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readsAtOnce)
	for _, in := range r.cache.All() {
		if in.State == fleet.Condemned && in.Removal.Revocable() && in.Power == fleet.Up && !in.RegisteredAt.IsZero() {
			g.Go(func() error { return r.takeBack(ctx, in) })
		}
	}
	return g.Wait()
}

// takeBack makes durable that an instance is not condemned any more.
func (r *Reign) takeBack(ctx context.Context, in cache.Instance) error {
	rec, err := r.records.update(ctx, in.ID, func(rec *bucket.InstanceRecord) error {
		if d := rec.Deletion; d != nil && removalOf(d).Revocable() {
			rec.Status, rec.Deletion = bucket.StatusRegistered, nil
		}
		return nil
	})
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil // its end is noticed like that of any other
	}
	if err != nil || rec.Deletion != nil {
		return err
	}
	_, err = r.cache.Update(in.ID, func(in *cache.Instance) error {
		state, err := in.State.On(fleet.EventReconsidered)
		if err != nil {
			return err
		}
		in.State, in.Removal, in.UnhealthyAt = state, fleet.Removal{}, time.Time{}
		return nil
	})
	if err != nil {
		return ignoreUnknown(err)
	}
	r.linkSuccessor(rec)
	r.log.InfoContext(ctx, "removal taken back: the instance is judged again", "instance", in.ID, "tenant", in.Group.Tenant,
		"group", in.Group.Name, "reason", in.Removal.Reason, "condemned_at", in.Removal.RequestedAt)
	return nil
}

// confirmRemoval makes durable that a caller has asked for the end of an instance that is
// condemned already: no later leader takes its removal back.
func (r *Reign) confirmRemoval(id identity.ID) error {
	_, err := r.records.update(r.ctx, id, func(rec *bucket.InstanceRecord) error {
		if d := rec.Deletion; d != nil && removalOf(d).Revocable() {
			confirmed := *d
			confirmed.DrainAckedAt = bucket.At(r.now())
			rec.Deletion = &confirmed
		}
		return nil
	})
	if err != nil && !errors.Is(err, objectstore.ErrNotFound) {
		return err
	}
	_, err = r.cache.Update(id, func(in *cache.Instance) error {
		in.Removal.Acked = in.Removal.Acked || in.Removal.Revocable()
		return nil
	})
	return ignoreUnknown(err)
}
