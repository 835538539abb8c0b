package operatorauth

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
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

// Bounds of one call that writes.
const (
	writeTimeout = 15 * time.Second
	maxMerges    = 5 // of one record, with what other writers wrote meanwhile
)

// Register gives a new operator its certificate, once for each nonce (S9): that
// the nonce is used, and the record, are durable before it leaves. Its effects
// end with the leadership, not with ctx.
//
// Errors match one of the sentinels of this package or are an [*InvalidError].
func (r *Registry) Register(ctx context.Context, req *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
	lead, err := r.leadership()
	if err != nil {
		return nil, err
	}
	keys, err := r.keys()
	if err != nil {
		return nil, err
	}
	claims, key, err := r.check(keys, req)
	if err != nil {
		return nil, err
	}
	if err := r.knowTenant(lead, claims.Tenant); err != nil {
		return nil, err
	}
	lead, cancel := context.WithTimeout(lead, writeTimeout)
	defer cancel()
	token := pki.HashNonce(req.RegistrationNonceJwt)
	used, err := r.spend(lead, token, key)
	if err != nil {
		return nil, err
	}
	who := registrant{id: used.OperatorID, tenant: claims.Tenant, nonce: token, key: key}
	cert, err := r.record(lead, keys.Authority, who, !used.RegisteredAt.IsZero())
	if err != nil {
		return nil, err
	}
	if err := r.settle(lead, used); err != nil {
		return nil, err
	}
	if err := prove(lead); err != nil {
		return nil, err
	}
	r.opts.Log.InfoContext(ctx, "operator registered", "operator", who.id, "tenant", who.tenant, "serial", cert.Serial)
	return &nstancev1.RegisterClientResponse{ClientCertificatePem: cert.PEM, ExpiresAt: timestamppb.New(cert.NotAfter)}, nil
}

// check looks at the request alone (S10). The verifier has seen to it that the
// nonce is for this cluster.
func (r *Registry) check(keys *pki.Keys, req *nstancev1.RegisterClientRequest) (identity.NonceClaims, ed25519.PublicKey, error) {
	token := req.RegistrationNonceJwt
	claims, err := keys.Verifier.Verify(token, r.opts.Now())
	switch {
	case err != nil:
		return claims, nil, fmt.Errorf("%w: %w", ErrRefused, pki.NonceReason(err))
	case claims.Kind != identity.NonceOperator:
		return claims, nil, fmt.Errorf("%w: the nonce is not one of an operator", ErrRefused)
	}
	key, err := pki.ParsePublicKey(req.PublicKeyPem)
	if err != nil {
		return claims, nil, &InvalidError{"public_key_pem", err.Error()}
	}
	if err := identity.VerifyProof(key, token, req.Proof); err != nil {
		return claims, nil, &InvalidError{"proof", "it is not the nonce's signature by the submitted key"}
	}
	return claims, key, nil
}

// mark is the stored mark of a used nonce.
type mark struct {
	layout.OperatorNonce
	place, etag string
}

// spend marks the nonce as used by key, for a new operator. Where the same key
// has tried before, the mark is that of then.
func (r *Registry) spend(ctx context.Context, token string, key ed25519.PublicKey) (mark, error) {
	id, err := r.opts.NewID()
	if err != nil {
		return mark{}, fmt.Errorf("new operator: %w", err)
	}
	m := mark{layout.OperatorNonce{OperatorID: id, PublicKeySHA256: fingerprint(key)}, layout.OperatorNonceKey(token), ""}
	if m, err = r.put(ctx, m); !errors.Is(err, objectstore.ErrPrecondition) {
		return m, err
	}
	return r.spent(ctx, m.place, m.PublicKeySHA256)
}

// put writes a mark over the version that it has the etag of.
func (r *Registry) put(ctx context.Context, m mark) (mark, error) {
	data, err := m.Encode()
	if err != nil {
		return m, err
	}
	etag, err := r.write(ctx, m.place, data, m.etag)
	if err == nil {
		m.etag = etag
	}
	return m, err
}

// spent reads whose nonce it was, which must be the same key.
func (r *Registry) spent(ctx context.Context, place, fingerprint string) (mark, error) {
	obj, err := r.opts.Store.Get(ctx, place)
	if err != nil {
		return mark{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	used, err := layout.DecodeOperatorNonce(place, obj.Data)
	if err != nil {
		return mark{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if used.PublicKeySHA256 != fingerprint {
		r.opts.Log.ErrorContext(ctx, "a used nonce came with another key: one of the two callers is not the operator",
			"operator", used.OperatorID)
		return mark{}, ErrUsed
	}
	return mark{used, place, obj.ETag}, nil
}

// settle notes in the mark that the operator's record is durable, before the first
// certificate leaves: from then on a record that is missing has been removed, and
// the nonce registers nobody at any leader (S13).
func (r *Registry) settle(ctx context.Context, m mark) error {
	if !m.RegisteredAt.IsZero() {
		return nil
	}
	m.RegisteredAt = layout.At(r.opts.Now())
	_, err := r.put(ctx, m)
	if errors.Is(err, objectstore.ErrPrecondition) {
		return fmt.Errorf("%w: the same operator registers twice at once", ErrUnavailable)
	}
	return err
}

// fingerprint is the SHA-256 of a key as it stands in the mark of its nonce.
func fingerprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}
