package shard

import (
	"context"
	"errors"
	"nstance.dev/server/instances"

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
	g.SetLimit(writesAtOnce)
	for _, in := range r.cache.All() {
		if in.State == fleet.Condemned && in.Removal.Revocable() && in.Power == fleet.Up && !in.RegisteredAt.IsZero() {
			g.Go(func() error { return r.takeBack(ctx, in) })
		}
	}
	return g.Wait()
}

// takeBack makes durable that an instance is not condemned any more.
func (r *Reign) takeBack(ctx context.Context, in cache.Instance) error {
	_, err := r.instances.Change(ctx, in.ID, func(rec *bucket.InstanceRecord) error {
		if d := rec.Deletion; d != nil && instances.RemovalOf(d).Revocable() {
			rec.Status, rec.Deletion = bucket.StatusRegistered, nil
		}
		return nil
	})
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil // its end is noticed like that of any other
	}
	if err != nil {
		return err
	}
	rec, _ := r.instances.Record(in.ID)
	if rec.Deletion != nil {
		return nil
	}
	r.instances.LinkSuccessor(rec)
	r.log.InfoContext(ctx, "removal taken back: the instance is judged again", "instance", in.ID, "tenant", in.Group.Tenant,
		"group", in.Group.Name, "reason", in.Removal.Reason, "condemned_at", in.Removal.RequestedAt)
	return nil
}

// confirmRemoval makes durable that a caller has asked for the end of an instance that is
// condemned already: no later leader takes its removal back.
func (r *Reign) confirmRemoval(id identity.ID) error {
	_, err := r.instances.Change(r.ctx, id, func(rec *bucket.InstanceRecord) error {
		if d := rec.Deletion; d != nil && instances.RemovalOf(d).Revocable() {
			confirmed := *d
			confirmed.DrainAckedAt = bucket.At(r.now())
			rec.Deletion = &confirmed
		}
		return nil
	})
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil // its end is noticed like that of any other
	}
	return err
}
