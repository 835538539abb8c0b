package clusterops_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"nstance.dev/admin/clusterops"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets/backends"
	"nstance.dev/server/secrets/secretstest/fakecloud"
)

func TestInitInAnEmptyBucket(t *testing.T) {
	w := newWorld(t)
	first, err := w.open(t).Init(t.Context(), "dev", now)
	if err != nil || !first.CAMade || !first.NonceMade {
		t.Fatalf("first time: %+v, %v", first, err)
	}
	again, err := w.open(t).Init(t.Context(), "dev", now.Add(time.Hour))
	if err != nil || again.CAMade || again.NonceMade || again.Fingerprint != first.Fingerprint || !again.NotAfter.Equal(first.NotAfter) {
		t.Errorf("second time: %+v, %v, want what the first has made", again, err)
	}
	if _, err := w.open(t).Nonce(t.Context(), clusterops.NonceRequest{ClusterID: "dev", Tenant: "red", Expiry: time.Hour, Now: now}); err != nil {
		t.Errorf("a nonce of the new cluster: %v", err)
	}
}

func TestInitMakesWhatIsMissingAlone(t *testing.T) {
	w := newWorld(t)
	if _, err := w.open(t).Init(t.Context(), "dev", now); err != nil {
		t.Fatal(err)
	}
	if err := w.secrets.Delete(t.Context(), pki.NonceKeySecret); err != nil {
		t.Fatal(err)
	}
	done, err := w.open(t).Init(t.Context(), "dev", now)
	if err != nil || done.CAMade || !done.NonceMade {
		t.Errorf("without the nonce key: %+v, %v", done, err)
	}
	if err := w.secrets.Delete(t.Context(), pki.CAKeySecret); err != nil {
		t.Fatal(err)
	}
	if _, err := w.open(t).Init(t.Context(), "dev", now); !errors.Is(err, pki.ErrCAKeyMissing) {
		t.Errorf("without the key of the authority: %v, want ErrCAKeyMissing", err)
	}
}

func TestInitRefusesABadID(t *testing.T) {
	if _, err := newWorld(t).open(t).Init(t.Context(), "a/b", now); err == nil {
		t.Error("no error")
	}
}

// The cloud stores are reached by the settings alone, under their usual prefixes.
func TestKeysInTheStoresOfTheClouds(t *testing.T) {
	aws, google := fakecloud.NewAWS(t), fakecloud.NewGoogle(t)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": aws.URL, "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "id",
		"AWS_SECRET_ACCESS_KEY": "key", "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
	} {
		t.Setenv(name, value)
	}
	for provider, stored := range map[string]func() (map[string]string, string){
		"aws-parameter-store":   func() (map[string]string, string) { return aws.Parameters(), "/dev/ca.key" },
		"aws-secrets-manager":   func() (map[string]string, string) { return aws.Secrets(), "dev/ca.key" },
		"google-secret-manager": func() (map[string]string, string) { return google.Secrets(), "projects/p/secrets/dev-ca-key" },
	} {
		t.Run(provider, func(t *testing.T) {
			settings := newWorld(t).settings
			settings.SecretsProvider, settings.KeyProvider, settings.KeySource = provider, "", ""
			settings.ClusterID, settings.Clients = "dev", backends.Clients{Google: google.Options()}
			if provider == "google-secret-manager" {
				settings.SecretsProject = "p"
			}
			cluster, err := clusterops.Open(t.Context(), settings)
			if err != nil {
				t.Fatal(err)
			}
			if done, err := cluster.Init(t.Context(), "dev", now); err != nil || !done.CAMade || !done.NonceMade {
				t.Fatalf("%+v, %v", done, err)
			}
			if all, key := stored(); !strings.Contains(all[key], "PRIVATE KEY") {
				t.Errorf("no %s", key)
			}
			if _, err := cluster.Nonce(t.Context(), clusterops.NonceRequest{ClusterID: "dev", Tenant: "red", Expiry: time.Hour, Now: now}); err != nil {
				t.Error(err)
			}
			if err := cluster.RotateEncryption(t.Context(), nil); !errors.Is(err, clusterops.ErrSettings) {
				t.Errorf("an encryption key that does not exist is changed: %v", err)
			}
			state, err := cluster.Inspect(t.Context())
			if err != nil || len(state.Secrets) != 2 || !state.Secrets[0].Readable {
				t.Errorf("secrets %+v, %v", state, err)
			}
		})
	}
}

// careless is a store that overwrites whatever is there.
type careless struct{ *memory.Store }

func (c careless) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	if o, err := c.Store.Get(ctx, key); err == nil {
		return c.PutIfMatch(ctx, key, bytes.Clone(data), o.ETag)
	}
	return c.Store.PutIfAbsent(ctx, key, data)
}

func TestF9_InitRefusesAStoreThatIgnoresConditions(t *testing.T) {
	w := newWorld(t)
	objects := careless{memory.New(memory.Options{})}
	if _, err := clusterops.New(objects, w.secrets).Init(t.Context(), "dev", now); err == nil {
		t.Error("no error")
	}
	if names, err := w.secrets.List(t.Context(), ""); err != nil || len(names) > 0 {
		t.Errorf("secrets %q, %v", names, err)
	}
}
