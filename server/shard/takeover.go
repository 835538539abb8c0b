package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/retry"
)

// readsAtOnce is how many records are read in parallel at a take-over.
const readsAtOnce = 32

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
	known.Go(func() error { return r.persist(ctx, "read the instance records", r.seedFromStorage) })
	if err := known.Wait(); err != nil {
		return err
	}
	r.linkSuccessors()
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
		r.records.inherits(r.cache.All(), func(group fleet.GroupID) int { return r.wanted.known(group).Desired() })
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
		if ctx.Err() != nil || errors.Is(err, errSuperseded) || lost(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		r.log.WarnContext(ctx, "take-over waits", "step", what, "retry_in", wait, "error", err)
		if err := retry.Wait(ctx, wait); err != nil {
			return err
		}
	}
}

// seedFromStorage makes the cache know every record of the shard: by its copy in
// the snapshot, where the listing shows that the copy is still right, and else
// by reading it. One that cannot be read is quarantined: reported, left alone,
// and not taken as absent (F10).
func (r *Reign) seedFromStorage(ctx context.Context) error {
	var known copies
	var listed []objectstore.Info
	g, readCtx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		known, err = r.snapshots.read(readCtx)
		return err
	})
	g.Go(func() (err error) {
		listed, err = r.listRecords(readCtx)
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	g, ctx = errgroup.WithContext(ctx)
	g.SetLimit(readsAtOnce)
	for _, info := range listed {
		if rec, ok := known.take(info); ok {
			if err := r.seed(rec, info.ETag); err != nil {
				_ = g.Wait() // what is under way ends first
				return err
			}
			continue
		}
		g.Go(func() error { return r.seedRecord(ctx, info.Key) })
	}
	r.records.addChanges(len(known)) // what is left in it stands in storage no more
	return g.Wait()
}

func (r *Reign) listRecords(ctx context.Context) ([]objectstore.Info, error) {
	var listed []objectstore.Info
	for info, err := range objectstore.ListAll(ctx, r.opts.Store, bucket.InstancePrefix(r.opts.Shard)) {
		if err != nil {
			return nil, err
		}
		listed = append(listed, info)
	}
	return listed, nil
}

func (r *Reign) seedRecord(ctx context.Context, key string) error {
	obj, err := r.opts.Store.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil // removed since the listing
	}
	if err != nil {
		return err
	}
	rec, err := bucket.DecodeInstanceRecord(key, obj.Data)
	if err != nil {
		r.quarantine(ctx, key, err)
		return nil
	}
	r.records.addChanges(1) // the snapshot lacks it
	return r.seed(rec, obj.ETag)
}

// seed takes a record in as it stands in storage.
func (r *Reign) seed(rec bucket.InstanceRecord, etag string) error {
	if err := r.records.outranked(rec); err != nil {
		return err
	}
	r.records.seed(rec, etag)
	err := r.cache.Insert(rowOf(rec))
	if errors.Is(err, cache.ErrExists) {
		return nil
	}
	if d := rec.Deletion; err == nil && d != nil && !d.GoneAt.IsZero() {
		r.tasks.Go(func() { r.bury(r.ctx, rec.ID, d.GoneAt.Add(r.tombstoneTime()).Sub(r.now())) })
	}
	return err
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
	row, err := r.cache.Update(m.InstanceID, func(in *cache.Instance) error {
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
