package operatorauth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

const (
	missFor   = 5 * time.Second // how long a refused certificate is refused unread
	maxMisses = 1024            // refused certificates remembered
)

// operator is one whose record was read. It is replaced, never changed.
type operator struct {
	rec  layout.OperatorRecord
	etag string
	gone chan struct{} // closed once the record is deleted; the same for all versions
}

// miss is a certificate that was refused.
type miss struct {
	id     identity.ID
	serial string
}

// misses keeps whoever holds a useless certificate from reading storage with
// every call.
type misses struct{ until map[miss]time.Time }

func (m *misses) has(k miss, now time.Time) bool { return now.Before(m.until[k]) }

func (m *misses) add(k miss, now time.Time) {
	if len(m.until) >= maxMisses {
		maps.DeleteFunc(m.until, func(_ miss, until time.Time) bool { return !now.Before(until) })
	}
	if len(m.until) < maxMisses {
		m.until[k] = now.Add(missFor)
	}
}

// Admit reports whether a certificate's owner is an operator of this cluster: its
// record exists, is of its tenant and role, and names this certificate or the one before.
// Known operators cost nothing; for others, or after a renewal elsewhere, the
// record is read once. Errors match [ErrUnknown] or [ErrUnavailable].
func (r *Registry) Admit(ctx context.Context, peer identity.Peer) error {
	if !peer.Role.Operates() || peer.Cluster != r.opts.Cluster {
		return ErrUnknown
	}
	if decided, err := r.recall(peer); decided {
		return err
	}
	rec, etag, err := r.read(ctx, layout.OperatorKey(peer.Tenant, peer.ID))
	switch {
	case errors.Is(err, objectstore.ErrNotFound):
		r.forget(peer.ID)
		return r.refuse(peer)
	case err != nil:
		return err
	}
	r.learn(rec, etag)
	if !holds(rec, peer) {
		return r.refuse(peer)
	}
	return nil
}

// recall decides without storage where it can.
func (r *Registry) recall(peer identity.Peer) (decided bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op := r.known[peer.ID]
	switch {
	case op != nil && op.rec.Tenant != peer.Tenant:
		return true, fmt.Errorf("%w: its tenant is another", ErrUnknown)
	case op != nil && holds(op.rec, peer):
		return true, nil
	case r.misses.has(miss{peer.ID, peer.Serial}, r.opts.Now()):
		return true, ErrUnknown
	}
	return false, nil
}

func (r *Registry) refuse(peer identity.Peer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.misses.add(miss{peer.ID, peer.Serial}, r.opts.Now())
	return ErrUnknown
}

// Gone returns a channel that is closed once the record of an admitted operator
// is deleted: its open streams end then (S13). For an operator that is not known
// it is closed already.
func (r *Registry) Gone(id identity.ID) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if op := r.known[id]; op != nil {
		return op.gone
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

// learn takes a record over as it was read or written.
func (r *Registry) learn(rec layout.OperatorRecord, etag string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op := &operator{rec: rec, etag: etag, gone: make(chan struct{})}
	if old := r.known[rec.ID]; old != nil {
		op.gone = old.gone
	}
	r.known[rec.ID] = op
	delete(r.unread, rec.ID)
	maps.DeleteFunc(r.misses.until, func(k miss, _ time.Time) bool { return k.id == rec.ID })
	r.mirror(rec, etag)
}

// forget ends an operator whose record is deleted.
func (r *Registry) forget(id identity.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op := r.known[id]
	if op == nil {
		return
	}
	close(op.gone)
	delete(r.known, id)
	if r.opts.Cache != nil {
		r.opts.Cache.DropOperator(id)
	}
	r.opts.Log.Info("operator removed", "operator", id, "tenant", op.rec.Tenant)
}

// mirror shows a record in the cache, for whoever looks into its file: what counts is
// the record, and that a nonce is used says its mark in storage (see [Registry.Register]).
func (r *Registry) mirror(rec layout.OperatorRecord, etag string) {
	if r.opts.Cache == nil {
		return
	}
	err := r.opts.Cache.PutOperator(cache.Operator{
		ID: rec.ID, Tenant: rec.Tenant, NonceSHA256: rec.NonceSHA256, PublicKeyPEM: rec.PublicKeyPEM,
		CertSerial: rec.Certificate.Serial, PrevSerial: rec.Certificate.PreviousSerial,
		CertNotAfter: rec.Certificate.NotAfter.Time, RegisteredAt: rec.RegisteredAt.Time, ETag: etag,
	})
	if err != nil {
		r.opts.Log.Warn("operator not mirrored", "operator", rec.ID, "error", err)
	}
}
