package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"

	"nstance.dev/server/secrets"

	"nstance.dev/protos/identity"
)

// ErrPublicKey is about a public key that is malformed or of a kind that gets
// no certificate here.
var ErrPublicKey = errors.New("invalid public key")

const (
	pemPublicKey   = "PUBLIC KEY"
	pemPrivateKey  = "PRIVATE KEY"
	pemCertificate = "CERTIFICATE"
)

// maxPublicKeySize bounds what is parsed, in bytes; an RSA key of 8192 bits
// still fits.
const maxPublicKeySize = 4 << 10

// minRSABits is the size of the smallest RSA key that gets a certificate.
const minRSABits = 2048

// ParsePublicKey reads the key of an agent or operator: PEM with exactly one
// block, a PUBLIC KEY that is Ed25519. Errors match [ErrPublicKey].
func ParsePublicKey(data []byte) (ed25519.PublicKey, error) {
	key, err := parsePublicKey(data)
	if err != nil {
		return nil, err
	}
	if k, ok := key.(ed25519.PublicKey); ok {
		return k, checkStrength(k)
	}
	return nil, fmt.Errorf("%w: it is %s, must be Ed25519", ErrPublicKey, describe(key))
}

// ParseFilePublicKey reads the key of a certificate that a machine uses for
// itself: as [ParsePublicKey], and ECDSA on P-256, P-384 or P-521 and RSA of 2048
// bits or more are accepted too.
func ParseFilePublicKey(data []byte) (crypto.PublicKey, error) {
	key, err := parsePublicKey(data)
	if err != nil {
		return nil, err
	}
	if err := checkStrength(key); err != nil {
		return nil, err
	}
	return key, nil
}

func parsePublicKey(data []byte) (crypto.PublicKey, error) {
	if len(data) > maxPublicKeySize {
		return nil, fmt.Errorf("%w: %d bytes long, at most %d are allowed", ErrPublicKey, len(data), maxPublicKeySize)
	}
	block, rest := pem.Decode(data)
	switch {
	case block == nil:
		return nil, fmt.Errorf("%w: it is not PEM", ErrPublicKey)
	case block.Type != pemPublicKey:
		return nil, fmt.Errorf("%w: the PEM block is a %.32q, must be a %q", ErrPublicKey, block.Type, pemPublicKey)
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, fmt.Errorf("%w: there is more than one PEM block, or text after it", ErrPublicKey)
	case len(block.Headers) > 0:
		return nil, fmt.Errorf("%w: the PEM block has headers", ErrPublicKey)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPublicKey, err)
	}
	return key, nil
}

func checkStrength(key crypto.PublicKey) error {
	switch k := key.(type) {
	case ed25519.PublicKey:
		if identity.WeakKey(k) {
			return fmt.Errorf("%w: it is a point of small order, for which signatures can be forged", ErrPublicKey)
		}
		return nil
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256(), elliptic.P384(), elliptic.P521():
			return nil
		}
	case *rsa.PublicKey:
		if k.N.BitLen() >= minRSABits {
			return nil
		}
	}
	return fmt.Errorf("%w: %s is not accepted; take Ed25519, ECDSA P-256, or RSA of %d bits or more", ErrPublicKey, describe(key), minRSABits)
}

func describe(key crypto.PublicKey) string {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return "Ed25519"
	case *ecdsa.PublicKey:
		return "ECDSA " + k.Params().Name
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA of %d bits", k.N.BitLen())
	}
	return fmt.Sprintf("%T", key)
}

// EncodePublicKey returns key as PEM, in the form that [ParsePublicKey] reads.
func EncodePublicKey(key ed25519.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPublicKey, Bytes: der}), nil
}

// KeyID returns the short name of a nonce-signing key: the first 8 hexadecimal
// digits of the SHA-256 of the key in PKIX DER form, the content of its PEM
// block. It tells the few keys of a cluster apart and proves nothing.
func KeyID(key ed25519.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:4])
}

// NewPrivateKey returns a new Ed25519 key made from r; nil means
// crypto/rand.Reader.
func NewPrivateKey(r io.Reader) (ed25519.PrivateKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(orRand(r), seed); err != nil {
		return nil, fmt.Errorf("new key: read random bits: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// EncodePrivateKeys returns keys as PEM blocks of PKCS#8, in their order.
func EncodePrivateKeys(keys ...ed25519.PrivateKey) (secrets.Secret, error) {
	var out []byte
	for _, key := range keys {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, fmt.Errorf("encode private key: %w", err)
		}
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: der})...)
	}
	return out, nil
}

// ParsePrivateKeys reads what [EncodePrivateKeys] wrote: at least one Ed25519
// key and nothing else. Errors say nothing of the content.
func ParsePrivateKeys(data secrets.Secret) ([]ed25519.PrivateKey, error) {
	var keys []ed25519.PrivateKey
	rest := []byte(data)
	for len(bytes.TrimSpace(rest)) > 0 {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != pemPrivateKey {
			return nil, fmt.Errorf("block %d is not a PEM block %q", len(keys)+1, pemPrivateKey)
		}
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("block %d is not a PKCS#8 key", len(keys)+1)
		}
		key, ok := parsed.(ed25519.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("block %d is not an Ed25519 key", len(keys)+1)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key")
	}
	return keys, nil
}

// ParseCertificates reads a bundle: at least one PEM certificate and nothing
// else.
func ParseCertificates(data []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for len(bytes.TrimSpace(data)) > 0 {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil || block.Type != pemCertificate {
			return nil, fmt.Errorf("block %d is not a PEM block %q", len(certs)+1, pemCertificate)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("block %d: %w", len(certs)+1, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, errors.New("there is no certificate")
	}
	return certs, nil
}

// EncodeCertificates returns certs as PEM blocks, in their order.
func EncodeCertificates(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, cert := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: cert.Raw})...)
	}
	return out
}
