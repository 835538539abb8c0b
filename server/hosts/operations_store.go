package hosts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/server/cache"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/power"
)

// load reads all operations, unless no instance can have one, and goes on with those that are
// not over.
func (o *Operations) load(ctx context.Context) error {
	if slices.ContainsFunc(o.opts.Cache.All(), func(in cache.Instance) bool { return in.Machine.On }) {
		if err := o.readAll(ctx); err != nil {
			return err
		}
	}
	o.mu.Lock()
	begun := o.resume()
	close(o.loaded) // none comes in before
	o.mu.Unlock()
	for _, op := range begun {
		rec := op.record()
		o.opts.Log.InfoContext(ctx, "operation resumed", "operation", rec.ID, "name", rec.Name, "instance", rec.InstanceID, "tenant", rec.Tenant,
			"reason", "a former leader began it")
		o.opts.Go(func() { o.run(op) })
	}
	return nil
}

// resume returns the operations that are not over, and sorts out what was read. Of several of one
// instance, of which no two are begun, one goes on: a write whose outcome its leader did not
// know may have taken effect when another one was under way. The caller has the mutex.
func (o *Operations) resume() (begun []*operation) {
	all := slices.SortedFunc(maps.Values(o.all), func(a, b *operation) int {
		ra, rb := a.record(), b.record()
		return cmp.Or(cmp.Compare(len(rb.Marks), len(ra.Marks)), ra.At.Compare(rb.At.Time), cmp.Compare(ra.ID, rb.ID))
	})
	for _, op := range all {
		first := o.busy[op.instance]
		switch {
		case op.record().State != string(power.InProgress):
			o.ended[op.instance] = append(o.ended[op.instance], op)
			continue
		case first == nil:
			o.busy[op.instance] = op
		default:
			op.bar(power.Bar{Reason: power.Cancelled, Message: fmt.Sprintf("operation %s of the instance was under way before anything was sent", first.key.id)})
		}
		begun = append(begun, op)
	}
	for _, some := range o.ended {
		slices.SortFunc(some, func(a, b *operation) int { return a.record().EndedAt.Compare(b.record().EndedAt.Time) })
	}
	return begun
}

func (o *Operations) readAll(ctx context.Context) error {
	var reads errgroup.Group
	reads.SetLimit(readsAtOnce)
	var failed error
	for info, err := range objectstore.ListAll(ctx, o.opts.Store, layout.OperationPrefix(o.opts.Shard)) {
		if failed = err; err != nil {
			break
		}
		reads.Go(func() error { return o.readOne(ctx, info.Key) })
	}
	return errors.Join(failed, reads.Wait())
}

// readOne reads an operation. One that cannot be understood is left alone: it may have begun.
func (o *Operations) readOne(ctx context.Context, key string) error {
	obj, err := o.opts.Store.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	rec, err := layout.DecodeOperationRecord(key, obj.Data)
	if err != nil {
		o.opts.Log.ErrorContext(ctx, "operation cannot be read: it is left alone until an administrator repairs or deletes it", "key", key, "error", err)
		return nil
	}
	op := newOperation(rec, obj.ETag)
	close(op.tried)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all[op.key] != nil {
		return nil // a listing that was repeated
	}
	o.all[op.key] = op
	return nil
}

// sweep deletes operations that were over for long.
func (o *Operations) sweep(ctx context.Context) {
	o.mu.Lock()
	var old []*operation
	for _, op := range o.all {
		if rec := op.record(); expired(rec, o.opts.Now()) {
			old = append(old, op)
		}
	}
	o.mu.Unlock()
	o.discard(ctx, old, "it was over for long")
}

// over says that an operation is over. Of each instance some such are kept: their number is bounded,
// however often one is started (S22).
func (o *Operations) over(op *operation) {
	o.mu.Lock()
	if o.busy[op.instance] == op {
		delete(o.busy, op.instance)
	}
	o.ended[op.instance] = append(o.ended[op.instance], op)
	some := o.ended[op.instance]
	old := slices.Clone(some[:max(0, len(some)-keepOfInstance)])
	o.mu.Unlock()
	o.discard(o.ctx, old, "its instance has many later ones")
}

// forget says that there is no such operation.
func (o *Operations) forget(op *operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy[op.instance] == op {
		delete(o.busy, op.instance)
	}
	if o.all[op.key] == op {
		delete(o.all, op.key)
	}
	left := slices.DeleteFunc(slices.Clone(o.ended[op.instance]), func(other *operation) bool { return other == op })
	if o.ended[op.instance] = left; len(left) == 0 {
		delete(o.ended, op.instance)
	}
}

// discard deletes operations that are over.
func (o *Operations) discard(ctx context.Context, old []*operation, reason string) {
	for _, op := range old {
		op.mu.Lock()
		key, etag := op.rec.Key(o.opts.Shard), op.etag
		op.mu.Unlock()
		err := objectstore.Delete(ctx, o.opts.Store, key, etag, o.opts.Writes)
		if err != nil && !errors.Is(err, objectstore.ErrNotFound) {
			if o.opts.Over(err) || ctx.Err() != nil {
				return
			}
			o.opts.Log.WarnContext(ctx, "operation not deleted", "operation", op.key.id, "tenant", op.key.tenant, "error", err)
			continue
		}
		o.opts.Log.DebugContext(ctx, "operation deleted", "operation", op.key.id, "tenant", op.key.tenant, "reason", reason)
		o.forget(op)
	}
}

// expired reports whether an operation was over for so long that nobody asks for it any more.
func expired(rec layout.OperationRecord, now time.Time) bool {
	return rec.State != string(power.InProgress) && !now.Before(rec.EndedAt.Add(keepOperations))
}
