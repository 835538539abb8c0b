package credentials

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"nstance.dev/protos/identity"
)

const (
	pemCertificate = "CERTIFICATE"
	pemPrivateKey  = "PRIVATE KEY"
	pemPublicKey   = "PUBLIC KEY"
)

// Identity is who the agent is, by a certificate and the key that fits it.
type Identity struct {
	// Peer is what servers read in the certificate: cluster, shard, tenant and id.
	Peer identity.Peer
	// Certificate is what the agent shows them.
	Certificate tls.Certificate

	notBefore time.Time
}

// newIdentity checks that the certificate is one certificate of instance id, and of key.
func newIdentity(certificatePEM []byte, key ed25519.PrivateKey, id identity.ID) (Identity, error) {
	block, rest := pem.Decode(certificatePEM)
	if block == nil || block.Type != pemCertificate || len(bytes.TrimSpace(rest)) > 0 {
		return Identity{}, errors.New("it is not one certificate in PEM form")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return Identity{}, err
	}
	if pub, ok := leaf.PublicKey.(ed25519.PublicKey); !ok || !pub.Equal(key.Public()) {
		return Identity{}, errors.New("it is for another key")
	}
	peer, err := identity.PeerFromCertificate(leaf)
	if err != nil {
		return Identity{}, err
	}
	if err := peer.Require(identity.RoleAgent); err != nil {
		return Identity{}, err
	}
	if peer.ID != id {
		return Identity{}, fmt.Errorf("it is for instance %q, this is %q", peer.ID, id)
	}
	return Identity{
		Peer:        peer,
		Certificate: tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key, Leaf: leaf},
		notBefore:   leaf.NotBefore,
	}, nil
}

// owner returns the instance that a certificate names, or "".
func owner(certificatePEM []byte) identity.ID {
	block, _ := pem.Decode(certificatePEM)
	if block == nil {
		return ""
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return ""
	}
	peer, err := identity.PeerFromCertificate(leaf)
	if err != nil {
		return ""
	}
	return peer.ID
}

// ServerName is the name that a server of the agent's shard proves in the handshake.
func (i Identity) ServerName() string { return identity.ServerName(i.Peer.Shard, i.Peer.Cluster) }

// Expired reports whether the certificate has ended at now.
func (i Identity) Expired(now time.Time) bool { return !now.Before(i.Peer.NotAfter) }

// RenewAt is the moment from which on the certificate is to be renewed.
func (i Identity) RenewAt() time.Time { return RenewAt(i.notBefore, i.Peer.NotAfter) }

// PublicKeyPEM returns the public half of the agent's key as it is sent to servers.
func (i Identity) PublicKeyPEM() ([]byte, error) {
	key, ok := i.Certificate.PrivateKey.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("identity has no Ed25519 key")
	}
	return PublicKeyPEM(key)
}

// PublicKeyPEM returns the public half of key as it is sent to servers.
func PublicKeyPEM(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encode public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPublicKey, Bytes: der}), nil
}

// RenewAt returns the moment at which two thirds of a certificate's life are over.
func RenewAt(notBefore, notAfter time.Time) time.Time {
	return notBefore.Add(notAfter.Sub(notBefore) / 3 * 2)
}

// RetryRenewal returns how long to wait after an attempt to renew before the next one: an
// hour, and less where that would miss the end of the certificate. A certificate can miss
// a quarter of its life and still be renewed.
func RetryRenewal(now, notAfter time.Time) time.Duration {
	const most, least = time.Hour, 10 * time.Second
	return max(least, min(most, notAfter.Sub(now)/4))
}
