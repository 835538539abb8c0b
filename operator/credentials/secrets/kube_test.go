package secrets_test

import (
	"testing"

	"nstance.dev/operator/credentials/secrets"
	"nstance.dev/operator/credentials/secrets/secretstest"
	"nstance.dev/operator/testworld"
)

func TestStoreInKubernetes(t *testing.T) {
	secretstest.Run(t, func(*testing.T) secrets.Store {
		c := testworld.NewClientBuilder(t).Build()
		return secrets.NewStore("ns", c, c)
	})
}
