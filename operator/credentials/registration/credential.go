package registration

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"time"

	"nstance.dev/protos/identity"
)

// ErrUnusable is matched by errors about a key or a certificate that cannot be used.
var ErrUnusable = errors.New("unusable")

// ErrTenant is matched by the error about a certificate of another tenant or cluster than
// the configuration's.
var ErrTenant = errors.New("the certificate is not one of the configured cluster and tenant")

// credential is a key with its certificate.
type credential struct {
	key  ed25519.PrivateKey
	leaf *x509.Certificate
	pem  []byte // of the certificate
}

// usableFor is how long a certificate must last to be worth starting with.
const usableFor = time.Minute

// newKey draws a private key.
func newKey(random io.Reader) (ed25519.PrivateKey, error) {
	if random == nil {
		random = rand.Reader
	}
	_, key, err := ed25519.GenerateKey(random)
	if err != nil {
		return nil, fmt.Errorf("new private key: %w", err)
	}
	return key, nil
}

// encodeKey returns both halves, PEM.
func encodeKey(key ed25519.PrivateKey) (private, public []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, errors.New("encode private key") // the cause might show it
	}
	public, err = encodePublic(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), public, err
}

func encodePublic(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encode public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// decodeKey reads a private key, PEM. The error shows nothing of it.
func decodeKey(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("%w: it is not a private key in PKCS#8 PEM form", ErrUnusable)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := key.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%w: it is not an Ed25519 key in PKCS#8 PEM form", ErrUnusable)
	}
	return private, nil
}

// owner is whose certificate it has to be.
type owner struct{ cluster, tenant string }

// check reads a certificate, PEM, as the one of key. It must chain to the roots, be in
// time, and be made for an operator. The error matches [ErrTenant] for a good certificate
// of somebody else, [ErrUnusable] for all others.
func (o owner) check(text []byte, key ed25519.PrivateKey, roots *x509.CertPool, now time.Time) (credential, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return credential{}, fmt.Errorf("%w: it is not a certificate in PEM form", ErrUnusable)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return credential{}, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	peer, err := identity.PeerFromCertificate(leaf)
	if err == nil {
		err = peer.Require(identity.RoleOperator)
	}
	if err != nil {
		return credential{}, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if public, ok := leaf.PublicKey.(ed25519.PublicKey); !ok || !public.Equal(key.Public()) {
		return credential{}, fmt.Errorf("%w: the certificate is for another key", ErrUnusable)
	}
	if !now.Add(usableFor).Before(leaf.NotAfter) {
		return credential{}, fmt.Errorf("%w: it ends at %s", ErrUnusable, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return credential{}, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if peer.Cluster != o.cluster || peer.Tenant != o.tenant {
		return credential{}, fmt.Errorf("%w: it is of cluster %q and tenant %q, configured are %q and %q; correct the configuration, or delete the certificate's Secret to register again",
			ErrTenant, peer.Cluster, peer.Tenant, o.cluster, o.tenant)
	}
	return credential{key, leaf, text}, nil
}

func (c credential) certificate() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{c.leaf.Raw}, PrivateKey: c.key, Leaf: c.leaf}
}
