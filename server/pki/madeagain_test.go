package pki_test

import (
	"crypto/x509/pkix"
	"testing"
	"time"

	"nstance.dev/server/pki"
)

// A certificate of the authority that was made again has the key and the subject of the one before: who holds the old one
// trusts what the new one signs, and the other way round, until the old one ends. With another subject nobody does.
func TestCertificateOfTheAuthorityMadeAgain(t *testing.T) {
	later := start.Add(9 * 365 * 24 * time.Hour)
	ended := start.Add(pki.DefaultCATTL + time.Hour)
	for _, tt := range []struct {
		name     string
		template pki.CATemplate
		at       time.Time
		both     bool // the client has the new certificate beside the old one
		trusted  bool
	}{
		{"before the old one ends", pki.CATemplate{}, later, false, true},
		{"after the old one has ended", pki.CATemplate{}, ended, false, false},
		{"after the old one has ended, and the client has both", pki.CATemplate{}, ended, true, true},
		{"with another subject", pki.CATemplate{Subject: pkix.Name{CommonName: "another"}}, later, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStores(t)
			before := s.ensureCA(t, pki.CATemplate{})
			object, err := s.objects.Get(t.Context(), pki.CACertKey)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.objects.DeleteIfMatch(t.Context(), pki.CACertKey, object.ETag); err != nil {
				t.Fatal(err)
			}
			after, err := pki.EnsureCA(t.Context(), s.secrets, s.objects, cluster, tt.template, pki.Options{Create: true, Now: fixed(later)})
			if err != nil {
				t.Fatal(err)
			}
			authority := pki.NewAuthority(after, cluster, fixed(tt.at), nil)
			server, err := pki.NewServerCert(authority, pki.ServerCertOptions{ServerID: "server-1", Shard: shard, Now: fixed(tt.at)})
			if err != nil {
				t.Fatal(err)
			}
			mutual := pki.MutualTLS(server, after.Pool(), fixed(tt.at))
			f := tlsFixture{authority: pki.NewAuthority(before, cluster, fixed(tt.at), nil), server: server}
			client := f.client(fixed(tt.at), agentTLS(t, authority))
			if tt.both {
				client.RootCAs = before.Pool()
				client.RootCAs.AddCert(after.Certificate())
			}
			if _, serverErr, clientErr := handshake(t, mutual, client); (clientErr == nil && serverErr == nil) != tt.trusted {
				t.Errorf("trusted is to be %v: %v, %v", tt.trusted, serverErr, clientErr)
			}
			if tt.at.After(later) || tt.template.Subject.CommonName != "" {
				return
			}
			// A certificate that the old one has signed is good at a server that has the new one alone.
			client = f.client(fixed(tt.at), agentTLS(t, f.authority))
			if _, serverErr, clientErr := handshake(t, mutual, client); serverErr != nil || clientErr != nil {
				t.Errorf("an agent of before: %v, %v", serverErr, clientErr)
			}
		})
	}
}
