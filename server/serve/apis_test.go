package serve

import (
	"path/filepath"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// The registrations of operators are in the server's cache, filled from storage, and a
// take-over of the shard does not empty it of them.
func TestOperatorsAreInTheCache(t *testing.T) {
	store := memory.New(memory.Options{})
	put(t, store, devConfig(t, 3))
	p := standby(t, store)
	p.store, p.static = objectstore.NewProbed(store), p.shard.Static()
	var err error
	if p.cache, err = cache.Open(t.Context(), filepath.Join(t.TempDir(), "cache.db"), cache.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cache.Close() })
	id, err := identity.NewID(identity.OperatorPrefix)
	if err != nil {
		t.Fatal(err)
	}
	rec := bucket.OperatorRecord{
		ID: id, Tenant: "default", ClusterID: p.static.Config.Server.ClusterID, PublicKeyPEM: "key", NonceSHA256: "nonce",
		Certificate: bucket.Certificate{Serial: "serial", NotAfter: bucket.At(time.Now().Add(time.Hour))}, RegisteredAt: bucket.At(time.Now()),
	}
	data, err := rec.Encode()
	if err == nil {
		_, err = store.PutIfAbsent(t.Context(), rec.Key(), data)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := p.newRegistry().Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.cache.Reset()
	got := p.cache.Operators()
	if len(got) != 1 || got[0].ID != id || got[0].NonceSHA256 != "nonce" || got[0].CertSerial != "serial" {
		t.Errorf("operators in the cache: %+v", got)
	}
}
