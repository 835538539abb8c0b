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

// smallOrder are the encodings, without the sign bit, of the points of Ed25519 whose order
// divides 8, those that are not reduced among them. Under such a key a signature can be
// made without any private key.
var smallOrder = map[[ed25519.PublicKeySize]byte]bool{
	{}:  true, // y = 0, order 4
	{1}: true, // y = 1, order 1
	{0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05}: true, // order 8
	{0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a}: true, // order 8
	nearPrime(0xec): true, // y = p - 1, order 2
	nearPrime(0xed): true, // y = p, that is 0
	nearPrime(0xee): true, // y = p + 1, that is 1
}

// nearPrime is the encoding of a number whose lowest byte is low and whose others are
// those of p = 2^255 - 19.
func nearPrime(low byte) (y [ed25519.PublicKeySize]byte) {
	for i := range y {
		y[i] = 0xff
	}
	y[0], y[len(y)-1] = low, 0x7f
	return y
}

// WeakKey reports whether key is one of the few points under which anybody can sign.
func WeakKey(key ed25519.PublicKey) bool {
	if len(key) != ed25519.PublicKeySize {
		return true
	}
	y := [ed25519.PublicKeySize]byte(key)
	y[len(y)-1] &= 0x7f
	return smallOrder[y]
}

// VerifyProof checks what [SignProof] made. The error is [ErrProof]; a key of
// which that proves nothing, see [WeakKey], has no proof.
func VerifyProof(key ed25519.PublicKey, token string, proof []byte) error {
	if WeakKey(key) || !ed25519.Verify(key, []byte(token), proof) {
		return ErrProof
	}
	return nil
}
