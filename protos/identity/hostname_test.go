package identity_test

import (
	"testing"

	"nstance.dev/protos/identity"
)

func TestValidHostname(t *testing.T) {
	for name, want := range map[string]bool{
		"": false, "a": true, "node-1.example.com": true, "A9": true, "-a": false, "a-": false, "a..b": false, ".a": false,
		"a.": false, "a_b": false, "a b": false, "ä": false, "a\x00": false,
		string(make([]byte, 254)): false,
	} {
		if got := identity.ValidHostname(name); got != want {
			t.Errorf("ValidHostname(%q) = %v, want %v", name, got, want)
		}
	}
}
