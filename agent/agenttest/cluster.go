// Package agenttest is a cluster for tests of the agent: an authority that issues
// certificates and nonces, and servers in memory that tests script.
//
// Connections are pipes in memory with real TLS and gRPC on them, so everything runs under
// the fake clock of testing/synctest. Make a [Cluster] inside the bubble.
package agenttest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"nstance.dev/protos/identity"
)

// Names in the cluster of every test.
const (
	ClusterID = "example"
	Shard     = "us-west-2a"
	Tenant    = "default"
	Group     = "web"
	Hash      = "sha256:0a1b" // of the configuration that nonces name
)

// Cluster is an authority, and the network that its servers are in.
type Cluster struct {
	Network

	t       testing.TB
	key     ed25519.PrivateKey
	ca      *x509.Certificate
	nonce   ed25519.PrivateKey
	serials int64
}

// NewCluster makes an authority whose certificate is valid for ten years from now.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t, key: newKey(t), nonce: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: ClusterID + " CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(87600 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, c.key.Public(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	if c.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	c.serials = 1
	return c
}

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// NewID returns the id of a new instance.
func NewID(t testing.TB) identity.ID {
	t.Helper()
	id, err := identity.NewID("wrk")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Roots trusts the cluster's authority.
func (c *Cluster) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.ca)
	return pool
}

// CA returns the authority's certificate, PEM.
func (c *Cluster) CA() []byte { return encode(c.ca.Raw) }

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Claims returns the claims of a nonce for id that ends after life.
func Claims(id identity.ID, life time.Duration) identity.NonceClaims {
	now := time.Now().Unix()
	return identity.NonceClaims{
		Kind: identity.NonceAgent, Subject: id.String(), ClusterID: ClusterID, Tenant: Tenant,
		Shard: Shard, Group: Group, ConfigHash: Hash,
		IssuedAt: now, NotBefore: now, ExpiresAt: now + int64(life/time.Second),
		TokenID: "00112233445566778899aabbccddeeff",
	}
}

// Sign returns the nonce with these claims.
func (c *Cluster) Sign(claims identity.NonceClaims) string {
	data, err := json.Marshal(claims)
	if err != nil {
		c.t.Fatal(err)
	}
	e := base64.RawURLEncoding
	text := e.EncodeToString([]byte(`{"alg":"EdDSA","typ":"JWT","kid":"0a1b2c3d"}`)) + "." + e.EncodeToString(data)
	return text + "." + e.EncodeToString(ed25519.Sign(c.nonce, []byte(text)))
}

// UserData writes into dir what user data brings to a machine: the authority, and a nonce
// for id that ends after five minutes.
func (c *Cluster) UserData(dir string, id identity.ID) {
	c.t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"ca.crt":    c.CA(),
		"nonce.jwt": []byte(c.Sign(Claims(id, 5*time.Minute)) + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Issue returns the certificate, PEM, of agent id over the public key, from five minutes
// ago until life from now.
func (c *Cluster) Issue(publicKeyPEM []byte, id identity.ID, life time.Duration) []byte {
	block, _ := pem.Decode(publicKeyPEM)
	if block == nil {
		c.t.Error("no public key in PEM form")
		return nil
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		c.t.Error(err)
		return nil
	}
	return c.sign(&x509.Certificate{
		Subject:         pkix.Name{CommonName: id.String(), Organization: []string{Tenant}},
		NotBefore:       time.Now().Add(-5 * time.Minute),
		NotAfter:        time.Now().Add(life),
		URIs:            []*url.URL{identity.AgentURI(ClusterID, Shard, id)},
		KeyUsage:        x509.KeyUsageDigitalSignature,
		ExtKeyUsage:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		ExtraExtensions: []pkix.Extension{identity.RoleExtension(identity.RoleAgent)},
	}, public)
}

func (c *Cluster) sign(template *x509.Certificate, public any) []byte {
	c.mu.Lock()
	c.serials++
	template.SerialNumber = big.NewInt(c.serials)
	c.mu.Unlock()
	der, err := x509.CreateCertificate(rand.Reader, template, c.ca, public, c.key)
	if err != nil {
		c.t.Error(err)
		return nil
	}
	return encode(der)
}

// ServerTLS returns the configuration of a server of a shard, with a new certificate.
func (c *Cluster) ServerTLS(shard string) *tls.Config {
	key := newKey(c.t)
	block, _ := pem.Decode(c.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "server"},
		NotBefore:   time.Now().Add(-5 * time.Minute),
		NotAfter:    time.Now().Add(87600 * time.Hour / 2),
		DNSNames:    []string{identity.ServerName(shard, ClusterID), identity.AnyServerName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, key.Public()))
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{block.Bytes}, PrivateKey: key}},
		ClientAuth:   tls.VerifyClientCertIfGiven,
		ClientCAs:    c.Roots(),
	}
}
