package serve

import (
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/file"
)

// The registrations of operators are in the server's cache, filled from storage, and a
// take-over of the shard does not empty it of them.
func TestOperatorsAreInTheCache(t *testing.T) {
	b := newBox(t)
	p, end := b.server()
	store, err := file.New(b.bucket())
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.NewID(identity.OperatorPrefix)
	if err != nil {
		t.Fatal(err)
	}
	rec := layout.OperatorRecord{
		ID: id, Tenant: "default", ClusterID: p.server.cfg.ClusterID, PublicKeyPEM: "key", NonceSHA256: "nonce",
		Certificate: layout.Certificate{Serial: "serial", NotAfter: layout.At(time.Now().Add(time.Hour))}, RegisteredAt: layout.At(time.Now()),
	}
	data, err := rec.Encode()
	if err == nil {
		_, err = store.PutIfAbsent(t.Context(), rec.Key(), data)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := p.server.operators.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.res.cache.Reset()
	got := p.res.cache.Operators()
	if len(got) != 1 || got[0].ID != id || got[0].NonceSHA256 != "nonce" || got[0].CertSerial != "serial" {
		t.Errorf("operators in the cache: %+v", got)
	}
	if err := end(true); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}
