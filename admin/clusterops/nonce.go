package clusterops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/pki"
)

// NonceRequest says for whom a nonce is, and how long.
type NonceRequest struct {
	ClusterID string
	Tenant    string
	Expiry    time.Duration // from Now; at least a second
	Now       time.Time
}

// Nonce returns a token with which one operator can register, once. It is a
// secret. Where the bucket has configurations, one of them has to have the tenant. A cluster that no leader has set up yet has no key to sign it with;
// the error then matches [pki.ErrNotInitialized].
func (c *Cluster) Nonce(ctx context.Context, r NonceRequest) (string, error) {
	if err := checkNames(r.ClusterID, r.Tenant); err != nil {
		return "", err
	}
	if r.Expiry < time.Second {
		return "", fmt.Errorf("expiry of the nonce: %v is less than 1s", r.Expiry)
	}
	if err := c.checkTenant(ctx, r.Tenant); err != nil {
		return "", err
	}
	keys, err := pki.EnsureNonceKeys(ctx, c.secrets, pki.Options{})
	if err != nil {
		return "", notSetUp(err)
	}
	signer, err := pki.NewNonceSigner(keys, nil)
	if err != nil {
		return "", err
	}
	return signer.Sign(identity.NonceClaims{
		Kind:      identity.NonceOperator,
		Subject:   r.ClusterID,
		ClusterID: r.ClusterID,
		Tenant:    r.Tenant,
		IssuedAt:  r.Now.Unix(),
		ExpiresAt: r.Now.Add(r.Expiry).Unix(),
	})
}

// notSetUp adds the remedy to the error about a cluster without keys.
func notSetUp(err error) error {
	if errors.Is(err, pki.ErrNotInitialized) {
		return fmt.Errorf("%w: no server has led this cluster yet; start one first, or make its keys (cluster init)", err)
	}
	return err
}
