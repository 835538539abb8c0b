package backends_test

import (
	"errors"
	"strings"
	"testing"

	"nstance.dev/server/config/document"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/secrets"
	"nstance.dev/server/secrets/backends"
	"nstance.dev/server/secrets/secretstest/fakecloud"
)

var hexKey = "hex:" + strings.Repeat("61", secrets.KeySize)

// useAWS has the SDK's usual variables lead to a fake account.
func useAWS(t *testing.T) *fakecloud.AWS {
	t.Helper()
	cloud := fakecloud.NewAWS(t)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": cloud.URL, "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "id",
		"AWS_SECRET_ACCESS_KEY": "key", "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
	} {
		t.Setenv(name, value)
	}
	return cloud
}

func TestEveryStoreOpens(t *testing.T) {
	t.Setenv("NSTANCE_ENCRYPTION_KEY", hexKey)
	useAWS(t)
	clients := backends.Clients{Google: fakecloud.NewGoogle(t).Options()}
	for _, s := range []document.Secrets{
		{Provider: "object-storage", Prefix: "secret/", EncryptionKey: &document.KeySource{Provider: "env"}},
		{Provider: "aws-parameter-store", Prefix: "/dev/"},
		{Provider: "aws-secrets-manager", Prefix: "dev/"},
		{Provider: "google-secret-manager", Prefix: "dev-", ProjectID: "project-1"},
	} {
		t.Run(s.Provider, func(t *testing.T) {
			store, err := clients.Open(t.Context(), memory.New(memory.Options{}), s)
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Put(t.Context(), "ca.key", secrets.Secret("value"), secrets.CreateOnly); err != nil {
				t.Fatal(err)
			}
			if got, err := store.Get(t.Context(), "ca.key"); err != nil || string(got) != "value" {
				t.Errorf("get %q, %v", []byte(got), err)
			}
			if names, err := store.List(t.Context(), ""); err != nil || len(names) != 1 {
				t.Errorf("list %q, %v", names, err)
			}
			if err := store.Delete(t.Context(), "ca.key"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestEveryKeySourceOpens(t *testing.T) {
	t.Setenv("NSTANCE_ENCRYPTION_KEY", hexKey)
	aws, google := useAWS(t), fakecloud.NewGoogle(t)
	aws.PutParameter("/keys/main", hexKey)
	aws.PutSecret("keys/main", hexKey)
	google.PutSecret("project-1", "keys", []byte(hexKey))
	clients := backends.Clients{Google: google.Options()}
	for _, k := range []document.KeySource{
		{Provider: "env"},
		{Provider: "aws-parameter-store", Source: "/keys/main"},
		{Provider: "aws-secrets-manager", Source: "keys/main"},
		{Provider: "google-secret-manager", Source: "keys", ProjectID: "project-1"},
	} {
		s := document.Secrets{Provider: "object-storage", Prefix: "secret/", EncryptionKey: &k, OldEncryptionKeys: []document.KeySource{k}}
		store, err := clients.Open(t.Context(), memory.New(memory.Options{}), s)
		if err != nil {
			t.Errorf("%s: %v", k.Provider, err)
			continue
		}
		if sealed, ok := store.(*secrets.Sealed); !ok || sealed.Plaintext() {
			t.Errorf("%s: secrets are in clear", k.Provider)
		}
	}
}

func TestWhatDoesNotOpen(t *testing.T) {
	useAWS(t)
	env := func(name string) *document.KeySource { return &document.KeySource{Provider: "env", Source: name} }
	for name, tt := range map[string]struct {
		secrets document.Secrets
		want    error
		says    string
	}{
		"an unknown store":        {document.Secrets{Provider: "vault"}, backends.ErrKind, "aws-parameter-store"},
		"an unknown key provider": {document.Secrets{Provider: "object-storage", EncryptionKey: &document.KeySource{Provider: "x"}}, secrets.ErrKeyProvider, "google-secret-manager"},
		"a key that is not set":   {document.Secrets{Provider: "object-storage", EncryptionKey: env("NSTANCE_NOT_SET")}, secrets.ErrKey, "NSTANCE_NOT_SET"},
		"an absent parameter": {document.Secrets{Provider: "object-storage", EncryptionKey: &document.KeySource{
			Provider: "aws-parameter-store", Source: "/absent",
		}}, secrets.ErrNotFound, "/absent"},
	} {
		_, err := backends.Clients{}.Open(t.Context(), memory.New(memory.Options{}), tt.secrets)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
