package pki_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/pki"
)

// handshake lets a client speak to a server, and returns what the server saw and
// both sides' errors.
func handshake(t *testing.T, server, client *tls.Config) (seen tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() {
		s := tls.Server(a, server)
		err := s.HandshakeContext(t.Context())
		seen = s.ConnectionState()
		if err == nil {
			_, err = s.Write([]byte("hello"))
		}
		a.Close()
		done <- err
	}()
	c := tls.Client(b, client)
	// A client finishes TLS 1.3 before the server has looked at its certificate,
	// so only what it can read tells whether it was let in.
	_, clientErr = io.ReadFull(c, make([]byte, 5))
	b.Close()
	serverErr = <-done
	return seen, serverErr, clientErr
}

type tlsFixture struct {
	authority *pki.Authority
	server    *pki.ServerCert
	mutual    *tls.Config
}

func newTLSFixture(t *testing.T, now func() time.Time) tlsFixture {
	t.Helper()
	a := newAuthority(t, now)
	server, err := pki.NewServerCert(a, pki.ServerCertOptions{ServerID: "server-1", Shard: shard, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return tlsFixture{a, server, pki.MutualTLS(server, a.CA().Pool(), now)}
}

func (f tlsFixture) client(now func() time.Time, certs ...tls.Certificate) *tls.Config {
	return &tls.Config{
		RootCAs: f.authority.CA().Pool(), ServerName: identity.ServerName(shard, cluster), Time: now,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(certs) == 0 {
				return &tls.Certificate{}, nil
			}
			return &certs[0], nil // whatever the server says that it accepts
		},
	}
}

func agentTLS(t *testing.T, a *pki.Authority) tls.Certificate {
	t.Helper()
	public, key := newKey(t)
	cert, err := a.IssueAgent(pki.AgentRequest{PublicKey: public, ID: agentID, Tenant: "prod", Shard: shard})
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{cert.Leaf.Raw}, PrivateKey: key}
}

func TestMutualTLS(t *testing.T) {
	f := newTLSFixture(t, fixed(start))
	seen, serverErr, clientErr := handshake(t, f.mutual, f.client(fixed(start), agentTLS(t, f.authority)))
	if serverErr != nil || clientErr != nil {
		t.Fatal(serverErr, clientErr)
	}
	peer, err := identity.PeerFromCertificate(seen.PeerCertificates[0])
	if err != nil || peer.ID != agentID || peer.Tenant != "prod" || seen.Version != tls.VersionTLS13 {
		t.Errorf("peer %+v, %v, TLS %x", peer, err, seen.Version)
	}
}

func TestServerTLSAsksNobodyForACertificate(t *testing.T) {
	f := newTLSFixture(t, fixed(start))
	_, serverErr, clientErr := handshake(t, pki.ServerTLS(f.server), f.client(fixed(start)))
	if serverErr != nil || clientErr != nil {
		t.Error(serverErr, clientErr)
	}
}

// forge signs a certificate for a client with any authority and any content.
func forge(t *testing.T, parent *x509.Certificate, parentKey ed25519.PrivateKey, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	public, key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: start.Add(-time.Minute), NotAfter: start.Add(time.Hour),
		Subject:         pkix.Name{CommonName: agentID.String(), Organization: []string{"prod"}},
		KeyUsage:        x509.KeyUsageDigitalSignature,
		ExtKeyUsage:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		ExtraExtensions: []pkix.Extension{identity.RoleExtension(identity.RoleAgent)},
	}
	change(template)
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestF43_ForgedAndMisusedCertificates(t *testing.T) {
	s := newStores(t)
	ca := s.ensureCA(t, pki.CATemplate{})
	value, err := s.secrets.Get(t.Context(), pki.CAKeySecret)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pki.ParsePrivateKeys(value)
	if err != nil {
		t.Fatal(err)
	}
	now := fixed(start)
	a := pki.NewAuthority(ca, cluster, now, nil)
	server, err := pki.NewServerCert(a, pki.ServerCertOptions{Shard: shard, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	f := tlsFixture{a, server, pki.MutualTLS(server, ca.Pool(), now)}
	other := newStores(t)
	otherCA := pki.NewAuthority(other.ensureCA(t, pki.CATemplate{}), cluster, now, nil) // the same name
	signed := func(change func(*x509.Certificate)) tls.Certificate {
		return forge(t, ca.Certificate(), keys[0], change)
	}
	same := func(*x509.Certificate) {}
	if _, serverErr, _ := handshake(t, f.mutual, f.client(now, signed(same))); serverErr != nil {
		t.Fatalf("a certificate without fault: %v", serverErr)
	}
	for name, cert := range map[string]tls.Certificate{
		"self-signed":                   forge(t, nil, nil, same),
		"another CA with the same name": agentTLS(t, otherCA),
		"expired":                       signed(func(c *x509.Certificate) { c.NotAfter = start.Add(-time.Second) }),
		"not yet valid":                 signed(func(c *x509.Certificate) { c.NotBefore = start.Add(time.Minute) }),
		"server's usage alone":          signed(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }),
		"no usage":                      signed(func(c *x509.Certificate) { c.ExtKeyUsage = nil }),
		"any usage":                     signed(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} }),
		"CA flag":                       signed(func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }),
		"the CA itself":                 {Certificate: [][]byte{ca.Certificate().Raw}, PrivateKey: keys[0]},
	} {
		_, serverErr, clientErr := handshake(t, f.mutual, f.client(now, cert))
		if serverErr == nil || clientErr == nil {
			t.Errorf("%s: server %v, client %v, want a refusal", name, serverErr, clientErr)
		}
	}
}

func TestF44_Downgrades(t *testing.T) {
	now := fixed(start)
	f := newTLSFixture(t, now)
	for name, config := range map[string]*tls.Config{"mutual": f.mutual, "server": pki.ServerTLS(f.server)} {
		old := f.client(now, agentTLS(t, f.authority))
		old.MaxVersion = tls.VersionTLS12
		if _, serverErr, clientErr := handshake(t, config, old); serverErr == nil || clientErr == nil {
			t.Errorf("%s: TLS 1.2: server %v, client %v, want a refusal", name, serverErr, clientErr)
		}
	}
	if _, serverErr, clientErr := handshake(t, f.mutual, f.client(now)); serverErr == nil || clientErr == nil {
		t.Errorf("no client certificate: server %v, client %v, want a refusal", serverErr, clientErr)
	}
}

func TestF44_PlainText(t *testing.T) {
	f := newTLSFixture(t, fixed(start))
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() {
		defer a.Close()
		done <- tls.Server(a, f.mutual).HandshakeContext(t.Context())
	}()
	go io.Copy(io.Discard, b)
	// The server may hang up before it has read everything.
	_, _ = b.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, ok := errors.AsType[tls.RecordHeaderError](<-done); !ok {
		t.Error("plain text was not refused")
	}
	b.Close()
}

func TestAClientFindsOutThatItReachedAnotherShard(t *testing.T) {
	now := fixed(start)
	f := newTLSFixture(t, now)
	client := f.client(now, agentTLS(t, f.authority))
	client.ServerName = identity.ServerName("us-west-2b", cluster)
	_, _, clientErr := handshake(t, f.mutual, client)
	if _, ok := errors.AsType[x509.HostnameError](clientErr); !ok {
		t.Errorf("error %v, want a HostnameError", clientErr)
	}
}

func TestServerCertIsRenewedAtTwoThirdsOfItsLife(t *testing.T) {
	now := start
	a := newAuthority(t, func() time.Time { return now })
	s, err := pki.NewServerCert(a, pki.ServerCertOptions{Shard: shard, TTL: 3 * time.Hour, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	get := func() *tls.Certificate {
		t.Helper()
		cert, err := s.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	first := get()
	now = start.Add(2*time.Hour - time.Second)
	if get() != first {
		t.Error("renewed too early")
	}
	now = start.Add(2 * time.Hour)
	second := get()
	if second == first || second.PrivateKey.(ed25519.PrivateKey).Equal(first.PrivateKey) {
		t.Error("at two thirds there is no new certificate with a new key")
	}
	addrs := []netip.Addr{netip.MustParseAddr("10.0.0.7")}
	s.SetAddresses([]string{"new.example.org"}, addrs)
	third := get()
	if third == second || !slices.Contains(third.Leaf.DNSNames, "new.example.org") || third.Leaf.VerifyHostname("10.0.0.7") != nil {
		t.Error("the new addresses are not in the certificate")
	}
	s.SetAddresses([]string{"new.example.org"}, addrs)
	if get() != third {
		t.Error("renewed for the same addresses")
	}
}

func TestServerCertIsServedToItsEndIfItCannotBeRenewed(t *testing.T) {
	now := start
	clock := func() time.Time { return now }
	random := &faultyRandom{}
	a := newAuthority(t, clock)
	s, err := pki.NewServerCert(a, pki.ServerCertOptions{Shard: shard, TTL: 3 * time.Hour, Now: clock, Rand: random})
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	random.broken = true
	now = start.Add(2 * time.Hour)
	if cert, err := s.GetCertificate(nil); err != nil || cert != first {
		t.Errorf("while it is valid: %v", err)
	}
	now = start.Add(3 * time.Hour)
	if _, err := s.GetCertificate(nil); err == nil || !strings.Contains(err.Error(), "random") {
		t.Errorf("after its end: %v, want the reason", err)
	}
	random.broken = false
	if cert, err := s.GetCertificate(nil); err != nil || cert == first {
		t.Errorf("when it can be renewed again: %v", err)
	}
}

type faultyRandom struct{ broken bool }

func (r *faultyRandom) Read(b []byte) (int, error) {
	if r.broken {
		return 0, errors.New("no entropy")
	}
	return rand.Read(b)
}
