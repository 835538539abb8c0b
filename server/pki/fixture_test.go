package pki_test

import (
	"crypto/ed25519"
	"testing"
	"time"

	"go.uber.org/goleak"
	"nstance.dev/protos/identity"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	cluster    = "example"
	shard      = "us-west-2a"
	agentID    = identity.ID("knc068a3cp3thz5z2mv1gejwftabc")
	operatorID = identity.ID("opr068a3cp3thz5z2mv1gejwftabc")
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func fixed(t time.Time) func() time.Time { return func() time.Time { return t } }

// stores are what a cluster is kept in.
type stores struct {
	objects *memory.Store
	secrets secrets.Store
}

func newStores(t testing.TB) stores {
	t.Helper()
	objects := memory.New(memory.Options{})
	s, err := secrets.NewSealed(objects, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return stores{objects, s}
}

func (s stores) ensureCA(t testing.TB, template pki.CATemplate) *pki.CA {
	t.Helper()
	ca, err := pki.EnsureCA(t.Context(), s.secrets, s.objects, cluster, template, pki.Options{Create: true, Now: fixed(start)})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func newAuthority(t testing.TB, now func() time.Time) *pki.Authority {
	t.Helper()
	return pki.NewAuthority(newStores(t).ensureCA(t, pki.CATemplate{}), cluster, now, nil)
}

func newKey(t testing.TB) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key.Public().(ed25519.PublicKey), key
}
