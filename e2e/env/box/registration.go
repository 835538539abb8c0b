package box

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

// Secrets opens the sealed secrets of the cluster with its key, as one who has stolen
// that would.
func (b *Box) Secrets() secrets.Store {
	b.t.Helper()
	fail := func(err error) {
		if err != nil {
			b.t.Fatalf("open the sealed secrets: %v", err)
		}
	}
	ctx := b.t.Context()
	source, err := secrets.OpenKeySource(secrets.KeyProviderFile, b.KeyPath())
	fail(err)
	keys, err := secrets.LoadKeys(ctx, source)
	fail(err)
	store, err := b.store(ctx)
	fail(err)
	sealed, err := secrets.NewSealed(store, secrets.DefaultPrefix, keys)
	fail(err)
	return sealed
}

// OperatorNonce returns a token with which one operator of a tenant registers itself.
func (b *Box) OperatorNonce(tenant string) string {
	b.t.Helper()
	return strings.TrimSpace(b.Cluster("nonce", "--tenant", tenant, "--output", "-").Out)
}

// NewKey returns a private key as agents and operators make them.
func NewKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Registration is a proper request of an agent or operator with a nonce and a key.
func Registration(t testing.TB, nonce string, key ed25519.PrivateKey) *nstancev1.RegisterClientRequest {
	t.Helper()
	text, err := pki.EncodePublicKey(key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return &nstancev1.RegisterClientRequest{RegistrationNonceJwt: nonce, PublicKeyPem: text, Proof: identity.SignProof(key, nonce)}
}
