package secrets_test

import (
	"fmt"
	"testing"

	"nstance.dev/operator/credentials/secrets"
	"nstance.dev/operator/credentials/secrets/secretstest"
)

func TestStoreInMemory(t *testing.T) {
	secretstest.Run(t, func(*testing.T) secrets.Store { return secretstest.NewStore() })
}

func TestS14_SecretsPrintAsTheirNames(t *testing.T) {
	s := secrets.Secret{Name: "x", Data: map[string][]byte{"key": []byte("marked")}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, s); got != "secret x" {
			t.Errorf("%s prints %q", verb, got)
		}
	}
	if got := s.LogValue().String(); got != "secret x" {
		t.Errorf("it logs %q", got)
	}
}
