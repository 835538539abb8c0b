package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/retry"
)

// auditInterval is how often the stored records are compared with what is known.
// Nobody but this leader writes them, so a difference is somebody's hand.
const auditInterval = time.Hour

// firstAudits are the pauses before the looks after a take-over, from the take-over
// on. A leader that was stopped right after it had proved its lease sends what it was
// about to send when it goes on. It can't replace a record that stands, but it can
// create one after its successor has read them all.
var firstAudits = [...]time.Duration{30 * time.Second, 5 * time.Minute}

// audit compares the keys of the stored records with what is known, some time after
// the take-over and then at its interval, until ctx ends.
func (r *Reign) audit(ctx context.Context) {
	for n := 0; ; n++ {
		wait := auditInterval
		if n < len(firstAudits) {
			wait = firstAudits[n]
		}
		if retry.Wait(ctx, wait) != nil {
			return
		}
		if err := r.auditOnce(ctx); err != nil && ctx.Err() == nil && !r.stumble(err) {
			r.log.WarnContext(ctx, "records not compared with storage", "error", err)
		}
	}
}

// auditOnce takes in records that storage has and this leader has not, and lets
// go of those that it has and storage has not.
func (r *Reign) auditOnce(ctx context.Context) error {
	before := r.records.ids() // a record made during the listing need not be in it
	stored := map[identity.ID]bool{}
	for info, err := range objectstore.ListAll(ctx, r.opts.Store, bucket.InstancePrefix(r.opts.Shard)) {
		if err != nil {
			return err
		}
		_, _, id, err := bucket.ParseInstanceKey(info.Key)
		if err != nil {
			continue // not a record; whoever put it there knows why
		}
		stored[id] = true
		if _, known := r.records.get(id); !known {
			if err := r.takeIn(ctx, info.Key, id); err != nil {
				return err
			}
		}
	}
	for _, id := range before {
		if stored[id] {
			continue
		}
		if err := r.confirmVanished(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// takeIn makes an instance known whose record somebody has put into storage.
func (r *Reign) takeIn(ctx context.Context, key string, id identity.ID) error {
	obj, err := r.opts.Store.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	rec, err := bucket.DecodeInstanceRecord(key, obj.Data)
	if err != nil {
		r.quarantine(ctx, key, err)
		return nil
	}
	if err := r.records.outranked(rec); err != nil {
		return err
	}
	r.records.seed(rec, obj.ETag)
	if err := r.cache.Insert(rowOf(rec)); err != nil && !errors.Is(err, cache.ErrExists) {
		return fmt.Errorf("take in %s: %w", id, err)
	}
	if row, ok := r.cache.Instance(id); ok && row.State == fleet.Deleted {
		// A write of its record whose answer was lost has taken effect after all.
		r.log.WarnContext(ctx, "record of an ended instance came back, removing it", "instance", id)
		return r.records.remove(ctx, id)
	}
	r.log.WarnContext(ctx, "record found that this leader did not know", "instance", id)
	r.Enqueue(groupOf(rec))
	return nil
}

// confirmVanished reads a record that a listing lacked before it believes it.
func (r *Reign) confirmVanished(ctx context.Context, id identity.ID) error {
	rec, known := r.records.get(id)
	if !known {
		return nil // removed in order meanwhile
	}
	_, err := r.opts.Store.Get(ctx, rec.Key())
	if !errors.Is(err, objectstore.ErrNotFound) {
		return err
	}
	if _, known := r.records.get(id); known {
		r.vanished(ctx, id)
	}
	return nil
}

// vanished lets go of an instance whose record somebody has deleted: its machine
// is held from now on, not deleted, and can be adopted (F11). Its group is
// filled up again.
func (r *Reign) vanished(ctx context.Context, id identity.ID) {
	row, ok := r.cache.Instance(id)
	if !ok {
		return
	}
	r.log.ErrorContext(ctx, "record deleted by somebody else: the machine is held until it is adopted", "instance", id,
		"tenant", row.Group.Tenant, "group", row.Group.Name)
	r.events.failure(r.cache, row.Group, id, string(driver.Invalid), "the record of this instance was deleted in storage; its machine is held", r.now())
	r.records.forget(id)
	r.sessions.end(id)
	r.health.forget(id)
	r.cache.Remove(id)
	r.files.Forget(id)
	r.balancers.Touch(id)
	r.collector.soon()
	r.Enqueue(row.Group)
}

// forget drops a record that is not in storage any more.
func (rs *records) forget(id identity.ID) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.byID, id)
}
