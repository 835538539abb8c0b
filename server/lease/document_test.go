package lease_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/lease"
)

const good = `{"v":1,"leaderID":"server-1","leaderAddr":"10.0.0.1:8991","addrs":{"registration":"10.0.0.1:8992","operator":"10.0.0.1:8993","agent":"10.0.0.1:8994"},"lastUpdated":"2026-01-02T03:04:05.678Z","term":7,"leaseSeconds":15,"released":false}`

func TestDocumentForm(t *testing.T) {
	doc, err := lease.Decode([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	want := lease.Document{
		V: 1, LeaderID: "server-1", LeaderAddr: "10.0.0.1:8991",
		Addrs:       lease.Addrs{Registration: "10.0.0.1:8992", Operator: "10.0.0.1:8993", Agent: "10.0.0.1:8994"},
		LastUpdated: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), Term: 7, LeaseSeconds: 15,
	}
	if doc != want {
		t.Errorf("decoded %+v, want %+v", doc, want)
	}
	if data, err := doc.Encode(); err != nil || string(data) != good {
		t.Errorf("encoded %s, %v", data, err)
	}
}

func TestF10_DecodeQuarantines(t *testing.T) {
	for name, doc := range map[string]string{
		"empty":           ``,
		"null":            `null`,
		"a list":          `[]`,
		"truncated":       good[:40],
		"trailing data":   good + good,
		"newer":           strings.Replace(good, `"v":1`, `"v":2`, 1),
		"without version": strings.Replace(good, `"v":1,`, ``, 1),
		"without leader":  strings.Replace(good, `server-1`, ``, 1),
		"without term":    strings.Replace(good, `"term":7`, `"term":0`, 1),
		"negative term":   strings.Replace(good, `"term":7`, `"term":-1`, 1),
		"no lease":        strings.Replace(good, `"leaseSeconds":15`, `"leaseSeconds":0`, 1),
		"endless lease":   strings.Replace(good, `"leaseSeconds":15`, `"leaseSeconds":9000000000`, 1),
		"bad time":        strings.Replace(good, `2026-01-02T`, `yesterday `, 1),
	} {
		if got, err := lease.Decode([]byte(doc)); !errors.Is(err, lease.ErrQuarantined) {
			t.Errorf("%s: decoded %+v, %v", name, got, err)
		}
	}
	if _, err := lease.Decode([]byte(strings.Replace(good, `"v":1`, `"v":1,"later":{}`, 1))); err != nil {
		t.Errorf("an unknown field: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"v":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := lease.Decode(data)
		if err != nil {
			if !errors.Is(err, lease.ErrQuarantined) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if doc.Term == 0 || doc.LeaderID == "" || doc.Lease() < lease.MinLease || doc.Lease() > lease.MaxLease {
			t.Fatalf("accepted %+v", doc)
		}
		encoded, err := doc.Encode()
		if err != nil {
			return // a year that JSON can't carry
		}
		again, err := lease.Decode(encoded)
		doc.LastUpdated = doc.LastUpdated.UTC().Truncate(time.Millisecond)
		if err != nil || again != doc {
			t.Fatalf("%+v came back as %+v, %v", doc, again, err)
		}
	})
}
