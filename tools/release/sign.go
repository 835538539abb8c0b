package release

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
)

// Sign signs data with an ECDSA key in PEM (PKCS #8 or SEC 1, as openssl makes them). The
// signature is what openssl dgst -sha256 and cosign verify-blob verify: over SHA-256, in
// ASN.1, as base64.
func Sign(key, data []byte) ([]byte, error) {
	private, err := privateKey(key)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	signature, err := ecdsa.SignASN1(rand.Reader, private, sum[:])
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return []byte(base64.StdEncoding.EncodeToString(signature) + "\n"), nil
}

// PublicKey is the public half of a key, in PEM.
func PublicKey(key []byte) ([]byte, error) {
	private, err := privateKey(key)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

func privateKey(key []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(key)
	if block == nil {
		return nil, errors.New("the signing key is not in PEM: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 makes one")
	}
	if private, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return private, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the signing key: %w", err)
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the signing key is of type %T, want ECDSA", parsed)
	}
	return private, nil
}
