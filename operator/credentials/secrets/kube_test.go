package secrets_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"nstance.dev/operator/credentials/secrets"
	"nstance.dev/operator/credentials/secrets/secretstest"
)

func TestStoreInKubernetes(t *testing.T) {
	secretstest.Run(t, func(*testing.T) secrets.Store {
		c := fake.NewClientBuilder().Build()
		return secrets.NewStore("ns", c, c)
	})
}
