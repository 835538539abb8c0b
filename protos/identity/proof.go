package identity

import (
	"crypto/ed25519"
	"errors"
)

// ErrProof says that a caller did not show that it holds the private key of the
// public key that it asks a certificate for.
var ErrProof = errors.New("proof of possession is wrong")

// SignProof proves the possession of key to whoever knows token, the nonce with
// which its owner registers.
func SignProof(key ed25519.PrivateKey, token string) []byte {
	return ed25519.Sign(key, []byte(token))
}

// VerifyProof checks what [SignProof] made. The error is [ErrProof].
func VerifyProof(key ed25519.PublicKey, token string, proof []byte) error {
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, []byte(token), proof) {
		return ErrProof
	}
	return nil
}
