package pki_test

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"sync"
	"testing"
	"time"

	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

func TestEnsureCAMakesItOnce(t *testing.T) {
	s := newStores(t)
	if _, err := pki.EnsureCA(t.Context(), s.secrets, s.objects, cluster, pki.CATemplate{}, pki.Options{}); !errors.Is(err, pki.ErrNotInitialized) {
		t.Fatalf("a server that may not make it: %v, want ErrNotInitialized", err)
	}
	ca := s.ensureCA(t, pki.CATemplate{})
	again, err := pki.EnsureCA(t.Context(), s.secrets, s.objects, cluster, pki.CATemplate{}, pki.Options{})
	if err != nil || !bytes.Equal(again.Bundle(), ca.Bundle()) {
		t.Errorf("the next start finds another authority (%v)", err)
	}
	cert := ca.Certificate()
	if cert.Subject.CommonName != "example CA" || !cert.IsCA || !cert.MaxPathLenZero || cert.MaxPathLen != 0 ||
		cert.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign || len(cert.SubjectKeyId) == 0 ||
		!cert.NotBefore.Equal(start.Add(-5*time.Minute)) || !cert.NotAfter.Equal(start.Add(87600*time.Hour)) {
		t.Errorf("certificate: %v, usage %v, from %v to %v", cert.Subject, cert.KeyUsage, cert.NotBefore, cert.NotAfter)
	}
}

func TestTheTemplateOfTheCA(t *testing.T) {
	ca := newStores(t).ensureCA(t, pki.CATemplate{
		Subject: pkix.Name{CommonName: "Ours", Organization: []string{"Org"}, Country: []string{"NO"}}, TTL: time.Hour,
	})
	cert := ca.Certificate()
	if got, want := cert.Subject.String(), "CN=Ours,O=Org,C=NO"; got != want || !cert.NotAfter.Equal(start.Add(time.Hour)) {
		t.Errorf("subject %q, want %q; ends %v", got, want, cert.NotAfter)
	}
}

func TestStartUpStates(t *testing.T) {
	remove := func(t *testing.T, s stores, key string) {
		t.Helper()
		o, err := s.objects.Get(t.Context(), key)
		if err == nil {
			err = s.objects.DeleteIfMatch(t.Context(), key, o.ETag)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	overwrite := func(t *testing.T, s stores, value string) {
		t.Helper()
		if err := s.secrets.Put(t.Context(), pki.CAKeySecret, secrets.Secret(value), secrets.Overwrite); err != nil {
			t.Fatal(err)
		}
	}
	create := pki.Options{Create: true, Now: fixed(start)}
	for _, tt := range []struct {
		name  string
		spoil func(*testing.T, stores)
		opts  pki.Options
		want  error
	}{
		{"both, and they match", func(*testing.T, stores) {}, create, nil},
		{"key without certificate", func(t *testing.T, s stores) { remove(t, s, "ca.crt") }, create, nil},
		{"key without certificate, and may not make it", func(t *testing.T, s stores) { remove(t, s, "ca.crt") }, pki.Options{}, pki.ErrNotInitialized},
		{"certificate without key", func(t *testing.T, s stores) { remove(t, s, "secret/ca.key") }, create, pki.ErrCAKeyMissing},
		{"another key", func(t *testing.T, s stores) {
			_, key := newKey(t)
			value, err := pki.EncodePrivateKeys(key)
			if err != nil {
				t.Fatal(err)
			}
			overwrite(t, s, string(value))
		}, create, pki.ErrCAMismatch},
		{"a key that is none", func(t *testing.T, s stores) { overwrite(t, s, "garbage") }, create, pki.ErrCAUnreadable},
		{"an empty key", func(t *testing.T, s stores) { overwrite(t, s, "") }, create, pki.ErrCAUnreadable},
		{"a certificate that is none", func(t *testing.T, s stores) {
			remove(t, s, "ca.crt")
			if _, err := s.objects.PutIfAbsent(t.Context(), "ca.crt", []byte("garbage")); err != nil {
				t.Fatal(err)
			}
		}, create, pki.ErrCAUnreadable},
		{"the storage is away", func(_ *testing.T, s stores) { s.objects.Down(true) }, create, objectstore.ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStores(t)
			before := s.ensureCA(t, pki.CATemplate{})
			tt.spoil(t, s)
			ca, err := pki.EnsureCA(t.Context(), s.secrets, s.objects, cluster, pki.CATemplate{}, tt.opts)
			if !errors.Is(err, tt.want) || (ca == nil) != (err != nil) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if ca != nil && !bytes.Equal(ca.Certificate().RawSubjectPublicKeyInfo, before.Certificate().RawSubjectPublicKeyInfo) {
				t.Error("the key of the authority has changed")
			}
			s.objects.Down(false)
			if errors.Is(tt.want, pki.ErrCAKeyMissing) {
				if o, err := s.objects.Get(t.Context(), "ca.crt"); err != nil || !bytes.Equal(o.Data, before.Bundle()) {
					t.Error("the certificate was overwritten")
				}
			}
		})
	}
}

func TestABundleOfTwoAuthorities(t *testing.T) {
	s, other := newStores(t), newStores(t)
	old, next := s.ensureCA(t, pki.CATemplate{}), other.ensureCA(t, pki.CATemplate{})
	o, err := s.objects.Get(t.Context(), "ca.crt")
	if err != nil {
		t.Fatal(err)
	}
	bundle := append(next.Bundle(), old.Bundle()...)
	if _, err := s.objects.PutIfMatch(t.Context(), "ca.crt", bundle, o.ETag); err != nil {
		t.Fatal(err)
	}
	ca := s.ensureCA(t, pki.CATemplate{})
	if !ca.Certificate().Equal(old.Certificate()) || !bytes.Equal(ca.Bundle(), bundle) {
		t.Error("with the old key alone the old certificate signs, and the bundle is both")
	}
}

func TestF8_ManyServersMakeOneAuthority(t *testing.T) {
	s := newStores(t)
	s.objects.SetFaults(func(c memory.Call) memory.Fault { // some answers are lost
		if c.Op == memory.OpPut && c.N%3 == 0 {
			return memory.Fault{After: objectstore.ErrUnavailable}
		}
		return memory.Fault{}
	})
	key, err := secrets.NewKey(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		t.Fatal(err)
	}
	if s.secrets, err = secrets.NewSealed(s.objects, "", []secrets.Key{key}); err != nil {
		t.Fatal(err)
	}
	type result struct{ ca, nonce string }
	results := make(chan result, 8)
	var wg sync.WaitGroup
	for range cap(results) {
		wg.Go(func() {
			opts := pki.Options{Create: true, Now: fixed(start)}
			ca, err := pki.EnsureCA(t.Context(), s.secrets, s.objects, cluster, pki.CATemplate{}, opts)
			if err != nil {
				t.Error(err)
				return
			}
			keys, err := pki.EnsureNonceKeys(t.Context(), s.secrets, opts)
			if err != nil || len(keys) != 1 {
				t.Errorf("%d keys, %v", len(keys), err)
				return
			}
			results <- result{string(ca.Bundle()), string(keys[0])}
		})
	}
	wg.Wait()
	close(results)
	all := map[result]bool{}
	for r := range results {
		all[r] = true
	}
	if len(all) != 1 {
		t.Errorf("%d different authorities or nonce keys, want 1", len(all))
	}
}

func TestEnsureNonceKeys(t *testing.T) {
	s := newStores(t)
	if _, err := pki.EnsureNonceKeys(t.Context(), s.secrets, pki.Options{}); !errors.Is(err, pki.ErrNotInitialized) {
		t.Errorf("a server that may not make it: %v, want ErrNotInitialized", err)
	}
	_, older := newKey(t)
	_, newer := newKey(t)
	value, err := pki.EncodePrivateKeys(newer, older)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.secrets.Put(t.Context(), pki.NonceKeySecret, value, secrets.Overwrite); err != nil {
		t.Fatal(err)
	}
	keys, err := pki.EnsureNonceKeys(t.Context(), s.secrets, pki.Options{})
	if err != nil || len(keys) != 2 || !keys[0].Equal(newer) || !keys[1].Equal(older) {
		t.Errorf("%d keys, %v, want the newer and the older", len(keys), err)
	}
}
