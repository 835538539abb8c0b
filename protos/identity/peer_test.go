package identity_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"nstance.dev/protos/identity"
)

var (
	agentID    = identity.ID(vectors[0].id)
	operatorID = identity.ID("opr" + vectors[0].id[3:])
	notAfter   = time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	publicKey  = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey)
)

func agentCertificate() *x509.Certificate {
	return &x509.Certificate{
		Subject:      pkix.Name{CommonName: agentID.String(), Organization: []string{"prod"}},
		URIs:         []*url.URL{identity.AgentURI("example", "us-west-2a", agentID)},
		Extensions:   []pkix.Extension{identity.RoleExtension(identity.RoleAgent)},
		SerialNumber: big.NewInt(0xabc),
		NotAfter:     notAfter,
		PublicKey:    publicKey,
	}
}

func operatorCertificate() *x509.Certificate {
	return &x509.Certificate{
		Subject:      pkix.Name{CommonName: "example", Organization: []string{"prod"}},
		URIs:         []*url.URL{identity.OperatorURI("example", operatorID)},
		Extensions:   []pkix.Extension{identity.RoleExtension(identity.RoleOperator)},
		SerialNumber: big.NewInt(0xabc),
		NotAfter:     notAfter,
		PublicKey:    publicKey,
	}
}

func TestPeerFromCertificate(t *testing.T) {
	serial := strings.Repeat("0", 29) + "abc"
	for _, tt := range []struct {
		cert *x509.Certificate
		want identity.Peer
	}{
		{agentCertificate(), identity.Peer{
			Role: identity.RoleAgent, Tenant: "prod", CommonName: agentID.String(), Cluster: "example",
			Shard: "us-west-2a", ID: agentID, Serial: serial, NotAfter: notAfter, Key: [ed25519.PublicKeySize]byte(publicKey),
		}},
		{operatorCertificate(), identity.Peer{
			Role: identity.RoleOperator, Tenant: "prod", CommonName: "example", Cluster: "example",
			ID: operatorID, Serial: serial, NotAfter: notAfter, Key: [ed25519.PublicKeySize]byte(publicKey),
		}},
	} {
		got, err := identity.PeerFromCertificate(tt.cert)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("peer differs (-want +got):\n%s", diff)
		}
	}
}

func TestURIs(t *testing.T) {
	for _, tt := range []struct {
		got  *url.URL
		want string
	}{
		{identity.AgentURI("example", "us-west-2a", agentID), "nstance://cluster/example/shard/us-west-2a/agent/" + agentID.String()},
		{identity.OperatorURI("example", operatorID), "nstance://cluster/example/operator/" + operatorID.String()},
	} {
		if tt.got.String() != tt.want {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
}

func TestF43_CertificatesThatNameNoOwner(t *testing.T) {
	uri := func(s string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			u, err := url.Parse(s)
			if err != nil {
				panic(err)
			}
			c.URIs = []*url.URL{u}
		}
	}
	agent := "nstance://cluster/example/shard/us-west-2a/agent/" + agentID.String()
	for _, tt := range []struct {
		name  string
		spoil func(*x509.Certificate)
		want  error
	}{
		{"no role", func(c *x509.Certificate) { c.Extensions = nil }, identity.ErrRole},
		{"two roles", func(c *x509.Certificate) {
			c.Extensions = append(c.Extensions, identity.RoleExtension(identity.RoleOperator))
		}, identity.ErrRole},
		{"unknown role", func(c *x509.Certificate) { c.Extensions[0] = identity.RoleExtension("root") }, identity.ErrRole},
		{"role with a tail", func(c *x509.Certificate) { c.Extensions[0].Value = append(c.Extensions[0].Value, 0) }, identity.ErrRole},
		{"role as a PrintableString", func(c *x509.Certificate) { c.Extensions[0].Value[0] = 0x13 }, identity.ErrRole},
		{"an ECDSA key", func(c *x509.Certificate) { c.PublicKey = &ecdsa.PublicKey{Curve: elliptic.P256()} }, identity.ErrBadCertificate},
		{"no key", func(c *x509.Certificate) { c.PublicKey = nil }, identity.ErrBadCertificate},
		{"a key under which anybody can sign", func(c *x509.Certificate) {
			c.PublicKey = ed25519.PublicKey(append([]byte{1}, make([]byte, 31)...))
		}, identity.ErrBadCertificate},
		{"no tenant", func(c *x509.Certificate) { c.Subject.Organization = nil }, identity.ErrBadCertificate},
		{"two tenants", func(c *x509.Certificate) { c.Subject.Organization = []string{"prod", "dev"} }, identity.ErrBadCertificate},
		{"a tenant that is no name", func(c *x509.Certificate) { c.Subject.Organization = []string{"../dev"} }, identity.ErrBadCertificate},
		{"no common name", func(c *x509.Certificate) { c.Subject.CommonName = "" }, identity.ErrBadCertificate},
		{"another common name", func(c *x509.Certificate) { c.Subject.CommonName = vectors[1].id }, identity.ErrBadCertificate},
		{"no URI", func(c *x509.Certificate) { c.URIs = nil }, identity.ErrBadCertificate},
		{"two URIs", func(c *x509.Certificate) { c.URIs = append(c.URIs, c.URIs[0]) }, identity.ErrBadCertificate},
		{"an operator's URI", func(c *x509.Certificate) {
			c.URIs = []*url.URL{identity.OperatorURI("example", operatorID)}
		}, identity.ErrBadCertificate},
		{"an operator's role", func(c *x509.Certificate) {
			c.Extensions[0] = identity.RoleExtension(identity.RoleOperator)
		}, identity.ErrBadCertificate},
		{"another scheme", uri(strings.Replace(agent, "nstance:", "https:", 1)), identity.ErrBadCertificate},
		{"another host", uri(strings.Replace(agent, "//cluster/", "//clusters/", 1)), identity.ErrBadCertificate},
		{"a port", uri(strings.Replace(agent, "//cluster/", "//cluster:1/", 1)), identity.ErrBadCertificate},
		{"a user", uri(strings.Replace(agent, "//cluster/", "//me@cluster/", 1)), identity.ErrBadCertificate},
		{"a query", uri(agent + "?x=1"), identity.ErrBadCertificate},
		{"a fragment", uri(agent + "#x"), identity.ErrBadCertificate},
		{"a slash at the end", uri(agent + "/"), identity.ErrBadCertificate},
		{"an escaped letter", uri(strings.Replace(agent, "example", "%65xample", 1)), identity.ErrBadCertificate},
		{"an escaped slash", uri(strings.Replace(agent, "example", "a%2fb", 1)), identity.ErrBadCertificate},
		{"a word in another place", uri(strings.Replace(agent, "/shard/", "/zone/", 1)), identity.ErrBadCertificate},
		{"a shard that is no name", uri(strings.Replace(agent, "us-west-2a", "US", 1)), identity.ErrBadCertificate},
		{"a cluster that is no name", uri(strings.Replace(agent, "example", "..", 1)), identity.ErrBadCertificate},
		{"an id that is none", uri(strings.Replace(agent, agentID.String(), "web-1", 1)), identity.ErrBadCertificate},
		{"an operator's id", func(c *x509.Certificate) {
			c.Subject.CommonName = operatorID.String()
			c.URIs = []*url.URL{identity.AgentURI("example", "us-west-2a", operatorID)}
		}, identity.ErrBadCertificate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cert := agentCertificate()
			tt.spoil(cert)
			p, err := identity.PeerFromCertificate(cert)
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if p != (identity.Peer{}) {
				t.Errorf("peer %+v beside an error", p)
			}
		})
	}
}

func TestF43_AnOperatorIsNamedByItsCluster(t *testing.T) {
	cert := operatorCertificate()
	cert.Subject.CommonName = "other"
	if _, err := identity.PeerFromCertificate(cert); !errors.Is(err, identity.ErrBadCertificate) {
		t.Errorf("error %v, want %v", err, identity.ErrBadCertificate)
	}
	cert = operatorCertificate()
	cert.URIs = []*url.URL{identity.OperatorURI("example", agentID)}
	if _, err := identity.PeerFromCertificate(cert); !errors.Is(err, identity.ErrBadCertificate) {
		t.Errorf("error %v, want %v", err, identity.ErrBadCertificate)
	}
}

func TestS11_PeerRequire(t *testing.T) {
	p := identity.Peer{Role: identity.RoleAgent}
	if err := p.Require(identity.RoleAgent); err != nil {
		t.Error(err)
	}
	if err := p.Require(identity.RoleOperator); !errors.Is(err, identity.ErrRole) {
		t.Errorf("error %v, want %v", err, identity.ErrRole)
	}
}
