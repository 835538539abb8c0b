package agents

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/netip"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/layout"
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
func (a *Service) OutstandingNonce(token string) bool {
	if len(token) > identity.MaxNonceSize {
		return false
	}
	id, ok := a.opts.Cache.ByNonce(pki.HashNonce(token))
	if !ok {
		return false
	}
	row, ok := a.opts.Cache.Instance(id)
	return ok && a.opts.Now().Before(row.NonceExpires.Add(identity.NonceLeeway))
}

// Register gives a new instance its certificate, once (S9): that the nonce
// is used is durable before the certificate leaves. A repeat with the same key
// while the nonce is in time is answered again, for the answer may have been
// lost. Source is the caller's address.
func (a *Service) Register(ctx context.Context, source netip.Addr, req *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
	claims, key, err := a.checkRegistration(req)
	if err != nil {
		a.opts.Metrics.registered("refused")
		return nil, err
	}
	id, err := claims.InstanceID()
	if err != nil {
		return nil, refuseRegistration(err)
	}
	unlock, err := a.registering.Lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	row, err := a.registrant(id, claims, source, req, key)
	if err != nil {
		a.opts.Metrics.registered("refused")
		return nil, err
	}
	ended := a.opts.Trace(ctx, row)
	answer, err := a.enrol(row, source, key, req)
	ended(err)
	if err != nil {
		a.opts.Metrics.registered("failed")
		return nil, err
	}
	a.opts.Metrics.registered("accepted")
	return answer, nil
}

// checkRegistration looks at the request alone, the cheap things first (S10).
func (a *Service) checkRegistration(req *nstancev1.RegisterClientRequest) (identity.NonceClaims, ed25519.PublicKey, error) {
	keys := a.opts.Keys()
	token := req.RegistrationNonceJwt
	claims, err := keys.Verifier.Verify(token, a.opts.Now())
	switch {
	case err != nil:
		return claims, nil, refuseRegistration(pki.NonceReason(err))
	case claims.Kind != identity.NonceAgent:
		return claims, nil, refuseRegistration(errors.New("the nonce is not one of an agent"))
	case claims.Shard != a.opts.Shard:
		return claims, nil, refuseRegistration(errors.New("the nonce is one of another shard"))
	case !a.opts.Config().HasTenant(claims.Tenant):
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
func (a *Service) registrant(id identity.ID, claims identity.NonceClaims, source netip.Addr, req *nstancev1.RegisterClientRequest, key ed25519.PublicKey) (cache.Instance, error) {
	row, ok := a.opts.Instances.Known(id)
	switch {
	case !ok, row.State.Leaving():
		return row, refuseRegistration(fmt.Errorf("instance %s does not exist or is being deleted", id))
	case row.Group.Tenant != claims.Tenant || row.Group.Name != claims.Group:
		return row, refuseRegistration(fmt.Errorf("the nonce names another tenant or group than that of instance %s", id))
	case id.Prefix() != row.Kind:
		return row, refuseRegistration(fmt.Errorf("the nonce names another kind than that of instance %s", id))
	case pki.HashNonce(req.RegistrationNonceJwt) != row.NonceSHA256:
		return row, refuseRegistration(fmt.Errorf("another nonce was made for instance %s", id))
	case !row.RegisteredAt.IsZero() && !sameKey(row.PublicKeyPEM, key):
		a.alarm(row, alarmUsedNonce, "source", source)
		return row, refusal.New(refusal.AlreadyExists, "ALREADY_REGISTERED", "the nonce has been used")
	}
	return row, a.checkSource(row, source)
}

func sameKey(stored string, key ed25519.PublicKey) bool {
	old, err := pki.ParsePublicKey([]byte(stored))
	return err == nil && old.Equal(key)
}

// enrol issues the certificate and makes the registration durable.
func (a *Service) enrol(row cache.Instance, source netip.Addr, key ed25519.PublicKey, req *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
	cert, err := a.opts.Keys().Authority.IssueAgent(pki.AgentRequest{
		PublicKey: key, ID: row.ID, Tenant: row.Group.Tenant, Shard: a.opts.Shard,
		TTL: a.opts.Config().Server.ClientCertTTL.Agent.Std(),
	})
	if err != nil {
		return nil, a.opts.Unavailable(err)
	}
	keyPEM, err := pki.EncodePublicKey(key)
	if err != nil {
		return nil, a.opts.Unavailable(err)
	}
	now, place := a.opts.Now(), a.provePlace(row, source, req)
	_, err = a.opts.Instances.Change(a.ctx, row.ID, func(rec *layout.InstanceRecord) error {
		switch {
		case rec.Deletion != nil:
			return refuseRegistration(errors.New("the instance is being deleted"))
		case rec.PublicKeyPEM != "" && !sameKey(rec.PublicKeyPEM, key):
			return refusal.New(refusal.AlreadyExists, "ALREADY_REGISTERED", "the nonce has been used")
		}
		rec.Status, rec.PublicKeyPEM = layout.StatusRegistered, string(keyPEM)
		if rec.RegisteredAt.IsZero() {
			rec.RegisteredAt = layout.At(now)
			place.note(rec)
		}
		rec.Certificate = replaceCertificate(rec.Certificate.Serial, cert)
		return nil
	})
	if refused := (*refusal.Error)(nil); errors.As(err, &refused) {
		return nil, err
	}
	if err != nil {
		a.opts.Over(err)
		return nil, a.opts.Unavailable(err)
	}
	a.reportUnprovenPlace(row, source, place)
	a.opts.Metrics.issued()
	if !row.RegisteredAt.IsZero() {
		if err := a.opts.Instances.RegisterAgain(row.ID); err != nil {
			return nil, a.opts.Unavailable(err)
		}
	}
	if err := a.mayHandOut(); err != nil {
		return nil, err
	}
	return &nstancev1.RegisterClientResponse{ClientCertificatePem: cert.PEM, ExpiresAt: timestamppb.New(cert.NotAfter)}, nil
}

// mayHandOut proves the lease right before a certificate leaves, for recording it
// takes its time (S2). One that is held back is not lost: the same key asks again.
func (a *Service) mayHandOut() error {
	if err := lease.Check(a.ctx); err != nil {
		return errTermOver.Because(err)
	}
	return nil
}

// replaceCertificate is the certificate entry after a new one was issued: the one before
// stays good, because the answer may be lost.
func replaceCertificate(before string, cert pki.Certificate) layout.Certificate {
	return layout.Certificate{
		Serial: cert.Serial, PreviousSerial: before,
		NotBefore: layout.At(cert.NotBefore), NotAfter: layout.At(cert.NotAfter),
	}
}
