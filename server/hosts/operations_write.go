package hosts

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/refusal"
	"nstance.dev/server/retry"
)

// create makes an operation durable and has it carried out, or forgets it. Where storage does not
// say what became of the write, neither is right: it may stand there now or later, and whoever
// leads next would carry it out. It is written until that is known.
func (o *Operations) create(op *operation) error {
	err := o.write(op, op.record())
	if errors.Is(err, objectstore.ErrPrecondition) && op.stored() {
		err = nil // it stands there by a call whose answer was lost
	}
	op.mu.Lock()
	op.failed = err
	op.mu.Unlock()
	if err != nil && !unknown(err) {
		o.forget(op)
	} else {
		o.opts.Go(func() { o.run(op) })
	}
	close(op.tried)
	return err
}

// unknown reports whether what was written may stand there, now or later.
func unknown(err error) bool {
	var refused *refusal.Error
	return !errors.As(err, &refused) && !errors.Is(err, layout.ErrUnreadable) && !errors.Is(err, layout.ErrNewer) &&
		(errors.Is(err, objectstore.ErrUnavailable) || errors.Is(err, objectstore.ErrPrecondition) || errors.Is(err, context.DeadlineExceeded))
}

// settle writes an operation of which it is not known whether it stands in storage, until it does.
// It reports whether that is so; else there is no such operation, or the term is over.
func (o *Operations) settle(op *operation) bool {
	for !op.stored() {
		if retry.Wait(o.ctx, lookAgain) != nil {
			return false
		}
		err := o.write(op, op.record())
		switch {
		case op.stored():
		case o.opts.Over(err) || o.ctx.Err() != nil:
			return false
		case !unknown(err):
			o.opts.Log.WarnContext(o.ctx, "operation not started", "operation", op.key.id, "instance", op.instance, "error", err)
			o.forget(op)
			return false
		default:
			o.opts.Log.WarnContext(o.ctx, "operation will be written again", "operation", op.key.id, "instance", op.instance, "retry_in", lookAgain, "error", err)
		}
	}
	op.mu.Lock()
	before := op.failed
	op.failed = nil
	op.mu.Unlock()
	if before != nil {
		rec := op.record()
		o.opts.Log.InfoContext(o.ctx, "operation started", "operation", rec.ID, "name", rec.Name, "instance", rec.InstanceID, "tenant", rec.Tenant,
			"deadline", rec.Deadline.Time, "reason", "its operator has asked for it, and storage answers again")
	}
	return true
}

// durable waits until the first write of an operation has ended, and returns why it is not known
// whether it stands in storage: nobody is told of what may be lost (S15).
func (o *Operations) durable(ctx context.Context, op *operation) error {
	select {
	case <-op.tried:
	case <-o.ctx.Done():
		return refusal.ErrTermOver
	case <-ctx.Done():
		return ctx.Err()
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.failed
}

// write makes a record durable and then known. Another write of it is that of a later leader.
func (o *Operations) write(op *operation, next layout.OperationRecord) error {
	op.mu.Lock()
	etag := op.etag
	op.mu.Unlock()
	next.Term = o.opts.Term
	data, err := next.Encode()
	if err == nil {
		etag, err = objectstore.Put(o.ctx, o.opts.Store, next.Key(o.opts.Shard), data, etag, o.opts.Writes)
	}
	if errors.Is(err, objectstore.ErrPrecondition) {
		return o.reread(op, err)
	}
	if err != nil {
		return fmt.Errorf("operation %s: %w", next.ID, err)
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	op.rec, op.etag = next, etag
	return nil
}

// reread takes in what stands in storage, where a write has found that something else does: an
// answer of before may have been lost. It returns why, for the next try.
func (o *Operations) reread(op *operation, why error) error {
	obj, err := o.opts.Store.Get(o.ctx, op.record().Key(o.opts.Shard))
	if err != nil {
		return fmt.Errorf("operation %s: %w", op.key.id, errors.Join(why, err))
	}
	rec, err := layout.DecodeOperationRecord(op.record().Key(o.opts.Shard), obj.Data)
	switch {
	case err != nil:
		return fmt.Errorf("operation %s: %w", op.key.id, err)
	case rec.Term > o.opts.Term:
		return &lease.SupersededError{Document: "operation " + op.key.id, Term: rec.Term}
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	if rec.InstanceID != op.instance || rec.Name != op.rec.Name || !maps.Equal(rec.Params, op.rec.Params) {
		return operationExists(op.key.id)
	}
	op.rec, op.etag = rec, obj.ETag
	return fmt.Errorf("operation %s: %w", op.key.id, why)
}
