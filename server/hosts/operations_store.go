package hosts

import (
	"context"
	"errors"
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
	close(o.loaded)
	o.mu.Lock()
	var begun []*operation
	for _, op := range o.all {
		if op.record().State == string(power.InProgress) {
			begun = append(begun, op)
		}
	}
	o.mu.Unlock()
	for _, op := range begun {
		rec := op.record()
		o.opts.Log.InfoContext(ctx, "operation resumed", "operation", rec.ID, "name", rec.Name, "instance", rec.InstanceID, "tenant", rec.Tenant,
			"reason", "a former leader began it")
		o.opts.Go(func() { o.run(op) })
	}
	return nil
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
	op := &operation{key: operationKey{rec.Tenant, rec.ID}, rec: rec, etag: obj.ETag, wake: make(chan struct{}, 1)}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all[op.key] != nil {
		return nil // a listing that was repeated
	}
	o.all[op.key] = op
	if rec.State == string(power.InProgress) {
		o.busy[rec.InstanceID] = op
	}
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
		o.opts.Log.DebugContext(ctx, "operation deleted", "operation", op.key.id, "tenant", op.key.tenant, "reason", "it was over for long")
		o.leave(op, true)
	}
}

// expired reports whether an operation was over for so long that nobody asks for it any more.
func expired(rec layout.OperationRecord, now time.Time) bool {
	return rec.State != string(power.InProgress) && !now.Before(rec.EndedAt.Add(keepOperations))
}
