package removal

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

// CancelRevocable cancels the removals that rest on a former leader's judgement of an
// instance's health alone, and of which nothing has come yet: health is judged again by
// each leader. Where the VM runs, the instance counts as running until the time for its
// first report is over, like every other; what has taken its place meanwhile is not too
// many until then.
func (r *Remover) CancelRevocable(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writesAtOnce)
	for _, in := range r.opts.Cache.All() {
		if in.State == fleet.Condemned && in.Removal.Revocable() && in.Power == fleet.Up && !in.RegisteredAt.IsZero() {
			g.Go(func() error { return r.takeBack(ctx, in) })
		}
	}
	return g.Wait()
}

// writesAtOnce is how many removals are taken back in parallel.
const writesAtOnce = 32

// takeBack makes durable that an instance is not condemned any more.
func (r *Remover) takeBack(ctx context.Context, in cache.Instance) error {
	_, err := r.opts.Instances.Change(ctx, in.ID, func(rec *layout.InstanceRecord) error {
		if d := rec.Deletion; d != nil && instances.RemovalOf(d).Revocable() {
			rec.Status, rec.Deletion = layout.StatusRegistered, nil
		}
		return nil
	})
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil // its end is noticed like that of any other
	}
	if err != nil {
		return err
	}
	rec, _ := r.opts.Instances.Record(in.ID)
	if rec.Deletion != nil {
		return nil
	}
	r.opts.Instances.LinkReplacement(rec)
	r.opts.Log.InfoContext(ctx, "removal cancelled: no caller asked for it, and health decides again", "instance", in.ID, "tenant", in.Group.Tenant,
		"group", in.Group.Name, "reason", in.Removal.Reason, "condemned_at", in.Removal.RequestedAt)
	return nil
}
