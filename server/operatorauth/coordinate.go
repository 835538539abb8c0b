package operatorauth

import (
	"context"
	"errors"
	"fmt"

	"nstance.dev/protos/identity"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

// Coordinate notes in an operator's record, durably, that it moves the work off
// machines that are to be deleted. Its tenant's machines wait for that from then on,
// while the operator is away too, and whoever leads (S20). It may be called again.
//
// Ctx is the leadership, of the cluster or of a shard, under which the write happens.
// Errors match [ErrUnknown], [ErrUnavailable] or [ErrNotLeader].
func (r *Registry) Coordinate(ctx context.Context, peer identity.Peer) error {
	if r.coordinates(peer.ID) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	for range maxMerges {
		err := r.mark(ctx, peer)
		if !errors.Is(err, objectstore.ErrPrecondition) {
			return err
		}
	}
	return fmt.Errorf("%w: others keep changing the record of operator %s", ErrUnavailable, peer.ID)
}

// coordinates reports whether an operator's record is known to have the mark.
func (r *Registry) coordinates(id identity.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	op := r.known[id]
	return op != nil && op.rec.CoordinatesDrains
}

// mark makes one attempt to write the mark.
func (r *Registry) mark(ctx context.Context, peer identity.Peer) error {
	rec, etag, err := r.read(ctx, layout.OperatorKey(peer.Tenant, peer.ID))
	if errors.Is(err, objectstore.ErrNotFound) {
		r.forget(peer.ID)
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	if err != nil {
		return err
	}
	if !rec.CoordinatesDrains {
		rec.CoordinatesDrains = true
		data, err := rec.Encode()
		if err != nil {
			return err
		}
		if etag, err = r.write(ctx, rec.Key(), data, etag); err != nil {
			return err
		}
		r.opts.Log.InfoContext(ctx, "operator coordinates drains", "operator", peer.ID, "tenant", peer.Tenant)
	}
	r.learn(rec, etag)
	return nil
}

// Coordinated reports whether somebody moves the work off the tenant's machines. A
// record that cannot be read may say so: then it does.
func (r *Registry) Coordinated(tenant string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, op := range r.known {
		if op.rec.Tenant == tenant && op.rec.CoordinatesDrains {
			return true
		}
	}
	for _, of := range r.unread {
		if of == tenant {
			return true
		}
	}
	return false
}

// Load reads all records before anything is decided that depends on them. What
// cannot be read is logged and counts as a coordinator of its tenant; the error is
// one of the listing.
func (r *Registry) Load(ctx context.Context) error {
	unread, err := r.refresh(ctx)
	if err == nil && unread != nil {
		r.opts.Log.WarnContext(ctx, "operators not read", "error", unread)
	}
	return err
}
