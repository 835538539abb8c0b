package secrets_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"nstance.dev/server/secrets"
)

func TestS14_ScrubbedErrorsRepeatNoSecret(t *testing.T) {
	value := secrets.Secret("-----BEGIN PRIVATE KEY-----\nMARKED-MARKED-MARKED\n")
	kind := errors.New("of a kind")
	quoting := fmt.Errorf("validation: value '%s...' is not accepted", []byte(value)[:40])
	got := secrets.Scrub(quoting, value, kind)
	if strings.Contains(got.Error(), "MARKED") || !errors.Is(got, kind) || errors.Is(got, quoting) {
		t.Errorf("the error is %v", got)
	}
	plain := errors.New("access denied for role reader")
	if got := secrets.Scrub(plain, value); !errors.Is(got, plain) {
		t.Errorf("an error without a secret became %v", got)
	}
	if got := secrets.Scrub(errors.New("value 'pin' is refused"), secrets.Secret("pin")); strings.Contains(got.Error(), "pin") {
		t.Errorf("a short secret shows in %v", got)
	}
	if secrets.Scrub(nil, value) != nil {
		t.Error("nothing became an error")
	}
}
