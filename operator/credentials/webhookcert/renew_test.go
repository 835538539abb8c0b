package webhookcert

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"testing"
	"time"
)

var (
	start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	names = Names("hooks", "ns")
)

const day = 24 * time.Hour

// renew is Renew where nothing fails.
func renew(t *testing.T, data map[string][]byte, now time.Time) (map[string][]byte, bool) {
	t.Helper()
	next, changed, err := Renew(data, names, now)
	if err != nil {
		t.Fatal(err)
	}
	return next, changed
}

// accepted reports whether an API server that trusts one Secret's authorities accepts
// what another serves.
func accepted(t *testing.T, trusted, served map[string][]byte, now time.Time) bool {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted[authoritiesEntry])
	pair, err := tls.X509KeyPair(served[certificateEntry], served[keyEntry])
	if err != nil {
		t.Fatal(err)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "hooks.ns.svc", CurrentTime: now})
	return err == nil
}

func TestCertificatesAreMadeOnce(t *testing.T) {
	data, changed := renew(t, nil, start)
	if !changed || !accepted(t, data, data, start) {
		t.Fatalf("changed %v", changed)
	}
	leaf := certificates(data[certificateEntry])[0]
	if got := leaf.NotAfter.Sub(start); got != ServingLife {
		t.Errorf("it lasts %v", got)
	}
	if _, changed := renew(t, data, start.Add(59*day)); changed {
		t.Error("changed before two thirds of its life")
	}
}

// Two years, day by day or so: what is served is always accepted by an API server that knows what
// was stored the look before.
func TestAnAPIServerThatIsALittleLateAcceptsEveryCertificate(t *testing.T) {
	before, _ := renew(t, nil, start)
	servings, authorities := 0, 0
	for now := start; now.Before(start.Add(730 * day)); now = now.Add(3 * day) {
		next, changed := renew(t, before, now)
		if string(next[certificateEntry]) != string(before[certificateEntry]) {
			servings++
		}
		if string(next[authorityKeyEntry]) != string(before[authorityKeyEntry]) {
			authorities++
		}
		if changed && !accepted(t, before, next, now) {
			t.Fatalf("day %v: nobody accepts what is served", now.Sub(start)/day)
		}
		if !accepted(t, next, next, now) {
			t.Fatalf("day %v: it does not fit", now.Sub(start)/day)
		}
		if n := len(certificates(next[authoritiesEntry])); n > 2 {
			t.Fatalf("%d authorities", n)
		}
		before = next
	}
	if servings < 11 || servings > 13 || authorities < 2 || authorities > 3 {
		t.Errorf("%d certificates and %d authorities in two years", servings, authorities)
	}
}

func TestWhatIsSpoiledIsReplaced(t *testing.T) {
	good, _ := renew(t, nil, start)
	other, _ := renew(t, nil, start)
	tests := []struct {
		name  string
		spoil func(map[string][]byte)
		keeps string // entry that has to stay
	}{
		{"no certificate", func(d map[string][]byte) { delete(d, certificateEntry) }, authoritiesEntry},
		{"another key", func(d map[string][]byte) { d[keyEntry] = other[keyEntry] }, authoritiesEntry},
		{"of another authority", func(d map[string][]byte) {
			d[certificateEntry], d[keyEntry] = other[certificateEntry], other[keyEntry]
		}, authoritiesEntry},
		{"no key of the authority", func(d map[string][]byte) { delete(d, authorityKeyEntry) }, certificateEntry},
		{"another key of the authority", func(d map[string][]byte) { d[authorityKeyEntry] = other[authorityKeyEntry] }, certificateEntry},
		{"rubbish", func(d map[string][]byte) {
			for name := range d {
				d[name] = []byte("rubbish")
			}
		}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			data := maps.Clone(good)
			test.spoil(data)
			kept := string(data[test.keeps])
			next, changed := renew(t, data, start)
			if !changed || !accepted(t, next, next, start) {
				t.Errorf("changed %v", changed)
			}
			if test.keeps != "" && string(next[test.keeps]) != kept {
				t.Errorf("%s is another one", test.keeps)
			}
			if _, changed := renew(t, next, start); changed {
				t.Error("it changes again")
			}
		})
	}
}

func TestACertificateForOtherNamesIsReplaced(t *testing.T) {
	data, _ := renew(t, nil, start)
	_, changed, err := Renew(data, Names("renamed", "ns"), start)
	if err != nil || !changed {
		t.Errorf("%v, changed %v", err, changed)
	}
}
