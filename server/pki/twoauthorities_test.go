package pki_test

import (
	"testing"

	"nstance.dev/server/pki"
)

// While the authority is being replaced, servers and clients have certificates of
// either, and all trust the bundle of both.
func TestABundleOfTwoAuthoritiesAcceptsBoth(t *testing.T) {
	one, two := newStores(t), newStores(t)
	oldCA, newCA := one.ensureCA(t, pki.CATemplate{}), two.ensureCA(t, pki.CATemplate{})
	bundle := append(newCA.Bundle(), oldCA.Bundle()...)
	var both []*pki.Authority
	for _, s := range []stores{one, two} {
		object, err := s.objects.Get(t.Context(), pki.CACertKey)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.objects.PutIfMatch(t.Context(), pki.CACertKey, bundle, object.ETag); err != nil {
			t.Fatal(err)
		}
		both = append(both, pki.NewAuthority(s.ensureCA(t, pki.CATemplate{}), cluster, fixed(start), nil))
	}
	alone := pki.NewAuthority(oldCA, cluster, fixed(start), nil)
	for i, serving := range both {
		server, err := pki.NewServerCert(serving, pki.ServerCertOptions{ServerID: "server-1", Shard: shard, Now: fixed(start)})
		if err != nil {
			t.Fatal(err)
		}
		f := tlsFixture{serving, server, pki.MutualTLS(server, serving.CA().Pool(), fixed(start))}
		for j, issuing := range both {
			_, serverErr, clientErr := handshake(t, f.mutual, f.client(fixed(start), agentTLS(t, issuing)))
			if serverErr != nil || clientErr != nil {
				t.Errorf("server of authority %d, agent of %d: %v, %v", i, j, serverErr, clientErr)
			}
		}
		// What a client would see that never got the bundle.
		f.authority = alone
		if _, _, err := handshake(t, f.mutual, f.client(fixed(start), agentTLS(t, alone))); (err == nil) != (i == 0) {
			t.Errorf("server of authority %d, agent that knows the old one alone: %v", i, err)
		}
	}
}
