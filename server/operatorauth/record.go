package operatorauth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
)

// registrant is who is to get a certificate.
type registrant struct {
	id     identity.ID
	tenant string
	role   identity.Role // empty: an operator's
	nonce  string        // hash
	key    ed25519.PublicKey
}

// record issues a certificate to a registrant and makes it durable: in a new
// record or, where an earlier answer was lost, in the one that is there. One that
// is known to have a record gets no other.
func (r *Registry) record(ctx context.Context, authority *pki.Authority, who registrant, recorded bool) (pki.Certificate, error) {
	if recorded {
		cert, err := r.repeat(ctx, authority, who)
		if errors.Is(err, ErrUnknown) {
			err = fmt.Errorf("%w: operator %s was removed", ErrRefused, who.id)
		}
		return cert, err
	}
	rec, cert, err := issueNew(authority, who, r.opts.ClientTTL(), r.opts.Now())
	if err != nil {
		return pki.Certificate{}, err
	}
	data, err := rec.Encode()
	if err != nil {
		return pki.Certificate{}, err
	}
	etag, err := r.write(ctx, rec.Key(), data, "")
	if errors.Is(err, objectstore.ErrPrecondition) {
		return r.repeat(ctx, authority, who)
	}
	if err != nil {
		return pki.Certificate{}, err
	}
	r.learn(rec, etag)
	return cert, nil
}

// repeat answers a registration whose record is there once more.
func (r *Registry) repeat(ctx context.Context, authority *pki.Authority, who registrant) (pki.Certificate, error) {
	keyPEM, err := pki.EncodePublicKey(who.key)
	if err != nil {
		return pki.Certificate{}, fmt.Errorf("key of operator %s: %w", who.id, err)
	}
	return r.replace(ctx, authority, layout.OperatorKey(who.tenant, who.id), func(old layout.OperatorRecord) (grant, error) {
		if old.NonceSHA256 != who.nonce || old.PublicKeyPEM != string(keyPEM) {
			return grant{}, fmt.Errorf("%w: the record of %s is of another registration", ErrUsed, who.id)
		}
		return grant{who.key, old.Certificate.Serial}, nil
	})
}

// issueNew makes the record and the first certificate of an operator.
func issueNew(authority *pki.Authority, who registrant, ttl time.Duration, now time.Time) (layout.OperatorRecord, pki.Certificate, error) {
	cert, err := authority.IssueOperator(pki.OperatorRequest{PublicKey: who.key, ID: who.id, Tenant: who.tenant, Role: who.role, TTL: ttl})
	if err != nil {
		return layout.OperatorRecord{}, cert, fmt.Errorf("certificate of operator %s: %w", who.id, err)
	}
	keyPEM, err := pki.EncodePublicKey(who.key)
	if err != nil {
		return layout.OperatorRecord{}, cert, fmt.Errorf("key of operator %s: %w", who.id, err)
	}
	return layout.OperatorRecord{
		ID: who.id, Tenant: who.tenant, ClusterID: authority.Cluster(), PublicKeyPEM: string(keyPEM),
		Certificate: entry(cert, ""), NonceSHA256: who.nonce, RegisteredAt: layout.At(now), Role: who.role,
	}, cert, nil
}

// entry is a certificate as a record has it. The one before stays good, because
// the answer that carries the new one may be lost.
func entry(cert pki.Certificate, before string) layout.Certificate {
	return layout.Certificate{
		Serial: cert.Serial, PreviousSerial: before,
		NotBefore: layout.At(cert.NotBefore), NotAfter: layout.At(cert.NotAfter),
	}
}

// Renew gives an operator a new certificate, for the same or a new key, with the
// name, tenant and role that it has. The record is durable before the certificate
// leaves. Peer is the owner of the certificate that the call came with.
//
// Errors match one of the sentinels of this package or are an [*InvalidError].
func (r *Registry) Renew(ctx context.Context, peer identity.Peer, publicKeyPEM []byte) (*nstancev1.RenewCertificateResponse, error) {
	lead, err := r.leadership()
	if err != nil {
		return nil, err
	}
	keys, err := r.keys()
	if err != nil {
		return nil, err
	}
	key, err := pki.ParsePublicKey(publicKeyPEM)
	if err != nil {
		return nil, &InvalidError{"public_key_pem", err.Error()}
	}
	lead, cancel := context.WithTimeout(lead, writeTimeout)
	defer cancel()
	cert, err := r.replace(lead, keys.Authority, layout.OperatorKey(peer.Tenant, peer.ID), func(old layout.OperatorRecord) (grant, error) {
		if !holds(old, peer) {
			return grant{}, fmt.Errorf("%w: its certificate has been replaced", ErrUnknown)
		}
		return grant{key, peer.Serial}, nil
	})
	if err != nil {
		return nil, err
	}
	if err := prove(lead); err != nil {
		return nil, err
	}
	r.opts.Log.InfoContext(ctx, "operator's certificate renewed", "operator", peer.ID, "tenant", peer.Tenant, "serial", cert.Serial)
	return &nstancev1.RenewCertificateResponse{ClientCertificatePem: cert.PEM, ExpiresAt: timestamppb.New(cert.NotAfter)}, nil
}

// holds reports whether a verified certificate is the one that a record names, with the
// key and the role that it names, or the one before, whose key may have been another.
func holds(rec layout.OperatorRecord, peer identity.Peer) bool {
	if cmp.Or(rec.Role, identity.RoleOperator) != peer.Role {
		return false
	}
	switch peer.Serial {
	case "":
		return false
	case rec.Certificate.Serial:
		key, err := pki.ParsePublicKey([]byte(rec.PublicKeyPEM))
		return err == nil && bytes.Equal(key, peer.Key[:])
	}
	return peer.Serial == rec.Certificate.PreviousSerial
}

// grant is the key that a certificate may be issued for, and the serial of the
// one that its owner certainly has: that one stays good, however many answers
// with newer ones were lost.
type grant struct {
	key   ed25519.PublicKey
	keeps string
}

// replace issues a certificate for the key that admit grants after a look at the
// record, and writes it there under the condition that nobody else wrote.
func (r *Registry) replace(ctx context.Context, authority *pki.Authority, place string, admit func(layout.OperatorRecord) (grant, error)) (pki.Certificate, error) {
	for range maxMerges {
		rec, etag, err := r.read(ctx, place)
		if errors.Is(err, objectstore.ErrNotFound) {
			if _, id, err := layout.ParseOperatorKey(place); err == nil {
				r.forget(id)
			}
			return pki.Certificate{}, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		if err != nil {
			return pki.Certificate{}, err
		}
		granted, err := admit(rec)
		if err != nil {
			return pki.Certificate{}, err
		}
		cert, err := r.reissue(ctx, authority, rec, granted, etag)
		if !errors.Is(err, objectstore.ErrPrecondition) {
			return cert, err
		}
	}
	return pki.Certificate{}, fmt.Errorf("%w: others keep changing %s", ErrUnavailable, place)
}

func (r *Registry) reissue(ctx context.Context, authority *pki.Authority, rec layout.OperatorRecord, granted grant, etag string) (pki.Certificate, error) {
	now := r.opts.Now()
	who := registrant{id: rec.ID, tenant: rec.Tenant, role: rec.Role, nonce: rec.NonceSHA256, key: granted.key}
	fresh, cert, err := issueNew(authority, who, r.opts.ClientTTL(), now)
	if err != nil {
		return cert, err
	}
	rec.PublicKeyPEM = fresh.PublicKeyPEM
	rec.Certificate = entry(cert, granted.keeps)
	rec.RenewedAt = layout.At(now)
	data, err := rec.Encode()
	if err != nil {
		return cert, err
	}
	etag, err = r.write(ctx, rec.Key(), data, etag)
	if err != nil {
		return pki.Certificate{}, err
	}
	r.learn(rec, etag)
	return cert, nil
}

// EnrolRequest names an operator that is enrolled without a nonce.
type EnrolRequest struct {
	Tenant string
	Key    ed25519.PublicKey
	Role   identity.Role    // an operator's or a viewer's; empty: an operator's
	ID     identity.ID      // empty: a new one
	TTL    time.Duration    // 0: pki.DefaultOperatorTTL
	Now    func() time.Time // time.Now
}

// Enrol registers an operator directly in storage, for whoever may write there:
// a development server, or an administrator at the bucket. The record is durable
// when it returns. An operator that exists already is an error that matches
// objectstore.ErrPrecondition.
func Enrol(ctx context.Context, store objectstore.Store, authority *pki.Authority, req EnrolRequest) (layout.OperatorRecord, pki.Certificate, error) {
	if req.Now == nil {
		req.Now = time.Now
	}
	if req.ID == "" {
		id, err := newID()
		if err != nil {
			return layout.OperatorRecord{}, pki.Certificate{}, fmt.Errorf("enrol operator: %w", err)
		}
		req.ID = id
	}
	rec, cert, err := issueNew(authority, registrant{id: req.ID, tenant: req.Tenant, role: req.Role, key: req.Key}, req.TTL, req.Now())
	if err != nil {
		return rec, cert, err
	}
	data, err := rec.Encode()
	if err != nil {
		return rec, cert, err
	}
	if _, err := objectstore.Put(ctx, store, rec.Key(), data, "", objectstore.RetryPolicy{}); err != nil {
		return rec, cert, fmt.Errorf("enrol operator %s: %w", req.ID, err)
	}
	return rec, cert, nil
}
