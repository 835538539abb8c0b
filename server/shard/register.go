package shard

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net/netip"
	"nstance.dev/server/instances"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
	"nstance.dev/server/lease"
	"nstance.dev/server/pki"
	"nstance.dev/server/refusal"
)

// errRegistration is all that a caller with a bad nonce is told (F42); why goes
// to the log.
var errRegistration = &refusal.Error{Code: refusal.PermissionDenied, Reason: "REGISTRATION_REFUSED", Message: "registration refused"}

func refuseRegistration(why error) error {
	return errRegistration.Because(why)
}

// OutstandingNonce reports whether the token is the nonce of an instance that
// has not registered yet, and in time: such a caller is never made to wait (F41).
// It costs a hash and two look-ups.
func (r *Reign) OutstandingNonce(token string) bool {
	if len(token) > identity.MaxNonceSize {
		return false
	}
	id, ok := r.cache.ByNonce(pki.HashNonce(token))
	if !ok {
		return false
	}
	row, ok := r.cache.Instance(id)
	return ok && r.now().Before(row.NonceExpires.Add(identity.NonceLeeway))
}

// RegisterAgent gives a new instance its certificate, once (S9): that the nonce
// is used is durable before the certificate leaves. A repeat with the same key
// while the nonce is in time is answered again, for the answer may have been
// lost. Source is the caller's address.
func (r *Reign) RegisterAgent(ctx context.Context, source netip.Addr, req *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
	claims, key, err := r.checkRegistration(req)
	if err != nil {
		r.opts.Metrics.registration("agent", "refused")
		return nil, err
	}
	id, err := claims.InstanceID()
	if err != nil {
		return nil, refuseRegistration(err)
	}
	unlock, err := r.registering.Lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	row, err := r.registrant(id, claims, source, req, key)
	if err != nil {
		r.opts.Metrics.registration("agent", "refused")
		return nil, err
	}
	rec, _ := r.instances.Record(id)
	_, span := r.traces.start(belowRecorded(ctx, rec.Trace), "instance.register", row.Group, attribute.String("nstance.instance", id.String()))
	answer, err := r.enrol(row, source, key, req)
	endSpan(span, err)
	if err != nil {
		r.opts.Metrics.registration("agent", "failed")
		return nil, err
	}
	r.opts.Metrics.registration("agent", "accepted")
	return answer, nil
}

// checkRegistration looks at the request alone, the cheap things first (S10).
func (r *Reign) checkRegistration(req *nstancev1.RegisterClientRequest) (identity.NonceClaims, ed25519.PublicKey, error) {
	keys := r.opts.Keys()
	token := req.RegistrationNonceJwt
	claims, err := keys.Verifier.Verify(token, r.now())
	switch {
	case err != nil:
		return claims, nil, refuseRegistration(err)
	case claims.Kind != identity.NonceAgent:
		return claims, nil, refuseRegistration(errors.New("the nonce is not one of an agent"))
	case claims.Shard != r.opts.Shard:
		return claims, nil, refuseRegistration(errors.New("the nonce is one of another shard"))
	case !r.wanted.config().HasTenant(claims.Tenant):
		return claims, nil, refuseRegistration(errors.New("the tenant is not configured"))
	}
	key, err := pki.ParsePublicKey(req.PublicKeyPem)
	if err != nil {
		return claims, nil, refusal.New(refusal.InvalidArgument, "INVALID_KEY", "public_key_pem: %v", err)
	}
	if err := identity.VerifyProof(key, token, req.Proof); err != nil {
		return claims, nil, refusal.New(refusal.InvalidArgument, "INVALID_PROOF", "proof: it is not the nonce's signature by the submitted key")
	}
	return claims, key, nil
}

// registrant finds the instance that the nonce is for, and whether it may
// register with this key from this place.
func (r *Reign) registrant(id identity.ID, claims identity.NonceClaims, source netip.Addr, req *nstancev1.RegisterClientRequest, key ed25519.PublicKey) (cache.Instance, error) {
	row, ok := r.instances.Known(id)
	switch {
	case !ok, row.State.Leaving():
		return row, refuseRegistration(errors.New("the instance does not exist or is to go"))
	case row.Group.Tenant != claims.Tenant || row.Group.Name != claims.Group:
		return row, refuseRegistration(errors.New("tenant or group differ from the instance's"))
	case id.Prefix() != row.Kind:
		return row, refuseRegistration(errors.New("the kind differs from the instance's"))
	case pki.HashNonce(req.RegistrationNonceJwt) != row.NonceSHA256:
		return row, refuseRegistration(errors.New("another nonce was made for this instance"))
	case !row.RegisteredAt.IsZero() && !sameKey(row.PublicKeyPEM, key):
		r.alarm(row, alarmUsedNonce, "source", source)
		return row, refusal.New(refusal.AlreadyExists, "ALREADY_REGISTERED", "the nonce has been used")
	}
	return row, r.checkSource(row, source)
}

func sameKey(stored string, key ed25519.PublicKey) bool {
	old, err := pki.ParsePublicKey([]byte(stored))
	return err == nil && old.Equal(key)
}

// enrol issues the certificate and makes the registration durable.
func (r *Reign) enrol(row cache.Instance, source netip.Addr, key ed25519.PublicKey, req *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
	cert, err := r.opts.Keys().Authority.IssueAgent(pki.AgentRequest{
		PublicKey: key, ID: row.ID, Tenant: row.Group.Tenant, Shard: r.opts.Shard,
		TTL: r.wanted.config().Server.ClientCertTTL.Agent.Std(),
	})
	if err != nil {
		return nil, unavailable(err)
	}
	keyPEM, err := pki.EncodePublicKey(key)
	if err != nil {
		return nil, unavailable(err)
	}
	now, place := r.now(), r.provePlace(row, source, req)
	after, err := r.instances.Change(r.ctx, row.ID, func(rec *bucket.InstanceRecord) error {
		switch {
		case rec.Deletion != nil:
			return refuseRegistration(errors.New("the instance is to go"))
		case rec.PublicKeyPEM != "" && !sameKey(rec.PublicKeyPEM, key):
			return refusal.New(refusal.AlreadyExists, "ALREADY_REGISTERED", "the nonce has been used")
		}
		rec.Status, rec.PublicKeyPEM = bucket.StatusRegistered, string(keyPEM)
		if rec.RegisteredAt.IsZero() {
			rec.RegisteredAt = bucket.At(now)
			place.note(rec)
		}
		rec.Certificate = succeed(rec.Certificate.Serial, cert)
		return nil
	})
	if refused := (*refusal.Error)(nil); errors.As(err, &refused) {
		return nil, err
	}
	if err != nil {
		r.stumble(err)
		return nil, unavailable(err)
	}
	r.reportUnproved(row, source, place)
	r.opts.Metrics.issued("agent")
	if !row.RegisteredAt.IsZero() {
		if err := r.registeredAgain(after); err != nil {
			return nil, unavailable(err)
		}
	}
	if err := r.mayHandOut(); err != nil {
		return nil, err
	}
	return &nstancev1.RegisterClientResponse{ClientCertificatePem: cert.PEM, ExpiresAt: timestamppb.New(cert.NotAfter)}, nil
}

// mayHandOut proves the lease right before a certificate leaves, for recording it
// takes its time (S2). One that is held back is not lost: the same key asks again.
func (r *Reign) mayHandOut() error {
	if err := lease.Check(r.ctx); err != nil {
		return errReignOver.Because(err)
	}
	return nil
}

// succeed is the certificate entry after a new one was issued: the one before
// stays good, because the answer may be lost.
func succeed(before string, cert pki.Certificate) bucket.Certificate {
	return bucket.Certificate{
		Serial: cert.Serial, PreviousSerial: before,
		NotBefore: bucket.At(cert.NotBefore), NotAfter: bucket.At(cert.NotAfter),
	}
}

// registeredAgain notes that an agent that had registered has done so again, as one does
// that has lost the answer.
func (r *Reign) registeredAgain(in cache.Instance) error {
	if _, err := r.instances.Note(in.ID, instances.Register); err != nil {
		return err
	}
	r.instanceChanged(instances.Change{Event: instances.Registered, Before: in, After: in})
	return nil
}
