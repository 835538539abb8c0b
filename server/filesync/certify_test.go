package filesync

import (
	"context"
	"testing"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

func leadership(t *testing.T) context.Context { return lease.Always(t.Context(), 2) }

func count(log []string, what string) (n int) {
	for _, entry := range log {
		if entry == what {
			n++
		}
	}
	return n
}

// The context of a test carries no leadership: nothing is signed or logged.
func TestS2_NoCertificateWithoutALease(t *testing.T) {
	in(t, map[string]document.File{"app.env": env, "node.crt": node}, func(t *testing.T, w *world) {
		w.end()
		w.lead(t.Context())
		a := w.connect(nil)
		settle(time.Hour)
		if n := count(a.said(), "file node.crt"); n != 0 || len(w.certlogs()) != 0 {
			t.Errorf("%d certificates were sent, %d logged", n, len(w.certlogs()))
		}
	})
}

// TestACertificateLogIsWrittenOnce: what is issued twice within a millisecond has two keys in
// storage, and the second log takes nothing from the first.
func TestACertificateLogIsWrittenOnce(t *testing.T) {
	var m machine
	now := time.Now()
	first, second, later := m.moment(now), m.moment(now), m.moment(now.Add(time.Second))
	if !first.Equal(now) || second.Sub(first) != time.Millisecond || !later.Equal(now.Add(time.Second)) {
		t.Errorf("moments %v, %v, %v of %v, the same, and a second later", first, second, later, now)
	}
}

const life = 3 * time.Hour

// shortLived makes certificates last for life.
func (w *world) shortLived() {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.certs["node"]
	c.TTL = document.Hours(life / time.Hour)
	w.certs["node"] = c
}

// endingAuthority has certificates signed by an authority that ends after a while.
func (w *world) endingAuthority(after time.Duration) {
	w.t.Helper()
	sealed, err := secrets.NewSealed(memory.New(memory.Options{}), "secret/", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	ca, err := pki.EnsureCA(w.t.Context(), sealed, memory.New(memory.Options{}), "test", pki.CATemplate{TTL: after}, pki.Options{Create: true})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ca = pki.NewAuthority(ca, "test", nil, nil)
}

func TestL10_CertificatesAreRenewedAtTwoThirdsOfTheirLife(t *testing.T) {
	in(t, map[string]document.File{"app.env": env, "node.crt": node}, func(t *testing.T, w *world) {
		w.shortLived()
		a := w.connect(nil)
		settle(10 * time.Second)
		first := a.certificate("node.crt")
		settle(life*2/3 - time.Minute)
		if a.certificate("node.crt").SerialNumber.Cmp(first.SerialNumber) != 0 {
			t.Fatal("it was renewed too early")
		}
		a.said()
		settle(2 * time.Minute)
		a.expect("file node.crt", "commit h1")
		second := a.certificate("node.crt")
		if left := second.NotAfter.Sub(first.NotAfter); left < life/2 {
			t.Errorf("the new one lasts only %v longer", left)
		}
	})
}

// The configuration asks for a month, and the authority ends after three hours.
func TestL10_ACertificateThatEndsWithItsAuthorityIsRenewedInTime(t *testing.T) {
	in(t, map[string]document.File{"node.crt": node}, func(t *testing.T, w *world) {
		w.endingAuthority(life)
		a := w.connect(nil)
		settle(10 * time.Second)
		first := a.certificate("node.crt")
		a.said()
		settle(life*2/3 - time.Minute)
		if a.certificate("node.crt").SerialNumber.Cmp(first.SerialNumber) != 0 {
			t.Fatal("it was renewed too early")
		}
		w.endingAuthority(10 * life)
		settle(2 * time.Minute)
		if second := a.certificate("node.crt"); second.NotAfter.Sub(first.NotAfter) < life {
			t.Errorf("it ends at %v, and so does its authority; it was not renewed under the new one before: %v", first.NotAfter, second.NotAfter)
		}
	})
}

// An outage of a quarter of a certificate's life, at the moment when it was to be renewed,
// ends before the certificate does.
func TestL10_ARenewalSurvivesAnOutage(t *testing.T) {
	in(t, map[string]document.File{"node.crt": node}, func(t *testing.T, w *world) {
		w.shortLived()
		a := w.connect(nil)
		settle(10 * time.Second)
		first := a.certificate("node.crt")
		settle(life*2/3 - time.Minute)
		w.end()
		a.stop()
		settle(life / 4)
		w.lead(leadership(t))
		w.connect(a)
		settle(10 * time.Second)
		if a.certificate("node.crt").SerialNumber.Cmp(first.SerialNumber) == 0 || !time.Now().Before(first.NotAfter) {
			t.Errorf("not renewed at %v, it ends at %v", time.Now(), first.NotAfter)
		}
	})
}
