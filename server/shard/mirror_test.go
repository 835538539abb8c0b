package shard

import (
	"testing"
	"time"

	"nstance.dev/server/bucket"
)

// An agent that registers before the answer to its create is written down keeps
// its registration: the older version of the record comes late and changes
// nothing.
func TestMirrorKeepsRegistration(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		w.converged(1)
		before := w.members(web)[0]
		older, _ := w.reign().records.get(before.ID)
		older.RegisteredAt, older.Certificate, older.PublicKeyPEM = bucket.Time{}, bucket.Certificate{}, ""
		w.reign().mirror(older)
		after := w.members(web)[0]
		if after.CertSerial != before.CertSerial || !after.RegisteredAt.Equal(before.RegisteredAt) {
			t.Errorf("serial %q became %q", before.CertSerial, after.CertSerial)
		}
	})
}
