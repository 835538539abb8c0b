package identity_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"testing"

	"nstance.dev/protos/identity"
)

// smallOrder are the points under which a signature can be made without a private key, in
// every encoding that is read.
func smallOrder(t *testing.T) (keys []ed25519.PublicKey) {
	t.Helper()
	for _, text := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	} {
		key, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		mirrored := slices.Clone(key)
		mirrored[31] |= 0x80
		keys = append(keys, key, mirrored)
	}
	return keys
}

// TestF44_KeysUnderWhichAnybodyCanSign: for each there is a token of which a proof is made
// without a private key, out of a point of small order and the number 0.
func TestF44_KeysUnderWhichAnybodyCanSign(t *testing.T) {
	keys := smallOrder(t)
	forged := 0
	for _, key := range keys {
		for i := range 64 {
			token := fmt.Sprint("token ", i)
			for _, r := range keys {
				proof := append(slices.Clone(r), make([]byte, 32)...)
				if ed25519.Verify(key, []byte(token), proof) {
					forged++
				}
				if err := identity.VerifyProof(key, token, proof); !errors.Is(err, identity.ErrProof) {
					t.Fatalf("key %x: a forged proof is taken", key)
				}
			}
		}
		if !identity.WeakKey(key) {
			t.Errorf("key %x passes", key)
		}
	}
	if forged < len(keys) {
		t.Errorf("%d proofs were forged; the test shows nothing", forged)
	}
	for range 1000 {
		key, _, err := ed25519.GenerateKey(nil)
		if err != nil || identity.WeakKey(key) {
			t.Fatalf("key %x is refused: %v", key, err)
		}
	}
	if !identity.WeakKey(nil) || !identity.WeakKey(keys[0][:31]) {
		t.Error("a key of another length passes")
	}
}

func TestVerifyProof(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	proof := identity.SignProof(private, "token")
	if err := identity.VerifyProof(public, "token", proof); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"another key":   identity.VerifyProof(other, "token", proof),
		"another token": identity.VerifyProof(public, "tokem", proof),
		"no proof":      identity.VerifyProof(public, "token", nil),
		"no key":        identity.VerifyProof(nil, "token", proof),
		"a short proof": identity.VerifyProof(public, "token", proof[:63]),
	} {
		if !errors.Is(err, identity.ErrProof) {
			t.Errorf("%s: %v, want ErrProof", name, err)
		}
	}
}
