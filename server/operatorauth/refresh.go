package operatorauth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

// Run reads the records now and then every interval, and those of operators that are attended
// to more often, so that operators deleted by somebody else end, until ctx does. It returns nil
// then.
func (r *Registry) Run(ctx context.Context) error {
	all, attended := time.NewTicker(r.opts.Interval), time.NewTicker(r.opts.Attention)
	defer all.Stop()
	defer attended.Stop()
	for look := r.Refresh; ; {
		if err := look(ctx); err != nil && ctx.Err() == nil {
			r.opts.Log.WarnContext(ctx, "operators not read", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-all.C:
			look = r.Refresh
		case <-attended.C:
			look = r.recheck
		}
	}
}

// Attend is [Registry.Gone] for who serves an operator for long, until ctx ends: the operator need not
// make another call for somebody to notice that its record was deleted.
func (r *Registry) Attend(ctx context.Context, id identity.ID) <-chan struct{} {
	r.mu.Lock()
	r.attended[id]++
	r.mu.Unlock()
	context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.attended[id]--; r.attended[id] == 0 {
			delete(r.attended, id)
		}
	})
	return r.Gone(id)
}

// recheck reads the records of the operators that are attended to. Like [Registry.Refresh] it ends
// nobody whose record cannot be read.
func (r *Registry) recheck(ctx context.Context) (unread error) {
	served := map[identity.ID]*operator{}
	r.mu.Lock()
	for id := range r.attended {
		if op := r.known[id]; op != nil {
			served[id] = op
		}
	}
	r.mu.Unlock()
	for id, known := range served {
		switch rec, etag, err := r.read(ctx, known.rec.Key()); {
		case errors.Is(err, objectstore.ErrNotFound):
			r.forget(id)
		case err != nil:
			unread = errors.Join(unread, err)
		case etag != known.etag:
			r.learn(rec, etag)
		}
	}
	return unread
}

// Refresh reads the records that are new or changed, and ends the operators
// whose record is gone. A listing that failed ends nobody, and neither does a
// record that cannot be read.
func (r *Registry) Refresh(ctx context.Context) error {
	unread, err := r.refresh(ctx)
	if err != nil {
		return err
	}
	return unread
}

// refresh tells records that could not be read from a listing that failed.
func (r *Registry) refresh(ctx context.Context) (unread, err error) {
	before := r.versions()
	listed := map[identity.ID]bool{}
	for info, err := range objectstore.ListAll(ctx, r.opts.Store, layout.OperatorPrefix) {
		if err != nil {
			return nil, fmt.Errorf("list operators: %w", err)
		}
		_, id, err := layout.ParseOperatorKey(info.Key)
		if err != nil {
			continue // not a record
		}
		listed[id] = true
		if etag, ok := before[id]; ok && etag == info.ETag {
			continue
		}
		unread = errors.Join(unread, r.reread(ctx, info.Key, id))
	}
	for id := range before {
		if !listed[id] {
			unread = errors.Join(unread, r.confirmGone(ctx, id))
		}
	}
	r.dropUnread(listed)
	return unread, nil
}

// dropUnread forgets records that could not be read and are gone.
func (r *Registry) dropUnread(listed map[identity.ID]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.unread, func(id identity.ID, _ string) bool { return !listed[id] })
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
		r.doubt(place, id)
		return err
	}
	r.learn(rec, etag)
	return nil
}

// doubt notes an operator of whom nobody knows what the record says.
func (r *Registry) doubt(place string, id identity.ID) {
	tenant, _, err := layout.ParseOperatorKey(place)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unread[id] = tenant
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
