package identity_test

import (
	"crypto/ed25519"
	"errors"
	"testing"

	"nstance.dev/protos/identity"
)

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
