package operators

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/objectstore"
)

// Run reads the records now and then every interval, so that operators deleted
// by somebody else end, until ctx does. It returns nil then.
func (r *Registry) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.opts.Interval)
	defer ticker.Stop()
	for {
		if err := r.Refresh(ctx); err != nil && ctx.Err() == nil {
			r.opts.Log.WarnContext(ctx, "operators not read", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Refresh reads the records that are new or changed, and ends the operators
// whose record is gone. A listing that failed ends nobody, and neither does a
// record that cannot be read.
func (r *Registry) Refresh(ctx context.Context) error {
	before := r.versions()
	listed := map[identity.ID]bool{}
	var failed error
	for info, err := range objectstore.ListAll(ctx, r.opts.Store, bucket.OperatorPrefix) {
		if err != nil {
			return fmt.Errorf("list operators: %w", err)
		}
		_, id, err := bucket.ParseOperatorKey(info.Key)
		if err != nil {
			continue // not a record
		}
		listed[id] = true
		if etag, ok := before[id]; ok && etag == info.ETag {
			continue
		}
		failed = errors.Join(failed, r.reread(ctx, info.Key, id))
	}
	for id := range before {
		if !listed[id] {
			failed = errors.Join(failed, r.confirmGone(ctx, id))
		}
	}
	return failed
}

// versions returns the etags of the known records.
func (r *Registry) versions() map[identity.ID]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	etags := make(map[identity.ID]string, len(r.known))
	for id, op := range r.known {
		etags[id] = op.etag
	}
	return etags
}

// reread takes over what a record says now.
func (r *Registry) reread(ctx context.Context, place string, id identity.ID) error {
	rec, etag, err := r.read(ctx, place)
	switch {
	case errors.Is(err, objectstore.ErrNotFound):
		r.forget(id)
		return nil
	case err != nil:
		return err
	}
	r.learn(rec, etag)
	return nil
}

// confirmGone ends an operator that a listing lacked, if its record is indeed
// not there.
func (r *Registry) confirmGone(ctx context.Context, id identity.ID) error {
	r.mu.Lock()
	op := r.known[id]
	r.mu.Unlock()
	if op == nil {
		return nil
	}
	return r.reread(ctx, op.rec.Key(), id)
}
