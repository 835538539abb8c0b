package shardtest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"nstance.dev/protos/identity"
)

// Cluster is an authority, and the network that the servers of its shards are in. It is
// safe for concurrent use.
type Cluster struct {
	ID string // "example"

	t     testing.TB
	key   ed25519.PrivateKey
	ca    *x509.Certificate
	nonce ed25519.PrivateKey

	mu      sync.Mutex
	serials int64
	servers map[string]*bufconn.Listener
	dials   []string
	leader  string            // shard that leads the cluster; "": the first one
	shards  map[string]*Shard // by name
	first   string
	spent   map[string]spent // used nonces, by their token id
	ttl     time.Duration
}

// spent says who used a nonce.
type spent struct {
	key ed25519.PublicKey
	id  identity.ID
}

// NewCluster makes an authority whose certificate is valid for ten years from now. The
// certificates of operators last for 30 days, until [Cluster.SetCertificateLife] says else.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{
		ID: "example", t: t, key: newKey(t), nonce: newKey(t), ttl: 720 * time.Hour, serials: 1,
		servers: map[string]*bufconn.Listener{}, shards: map[string]*Shard{}, spent: map[string]spent{},
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: c.ID + " CA"},
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

// CA returns the authority's certificate, PEM.
func (c *Cluster) CA() []byte { return encode(c.ca.Raw) }

// Roots trusts the authority.
func (c *Cluster) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.ca)
	return pool
}

// SetCertificateLife sets how long the certificates of operators last from now on.
func (c *Cluster) SetCertificateLife(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ttl = d
}

// SetLeader says which shard's leader leads the cluster, and so registers operators and
// renews their certificates; at first it is that of the shard that was made first.
func (c *Cluster) SetLeader(shard string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = shard
}

func (c *Cluster) leads(shard string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader == "" {
		return shard == c.first
	}
	return shard == c.leader
}

// Nonce returns a nonce with which an operator of tenant registers until life is over.
func (c *Cluster) Nonce(tenant string, life time.Duration) string {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	now := time.Now()
	claims, err := json.Marshal(identity.NonceClaims{
		Kind: identity.NonceOperator, Subject: c.ID, ClusterID: c.ID, Tenant: tenant,
		IssuedAt: now.Unix(), NotBefore: now.Unix(), ExpiresAt: now.Add(life).Unix(), TokenID: fmt.Sprintf("%x", id),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	e := base64.RawURLEncoding
	text := e.EncodeToString([]byte(`{"alg":"EdDSA","typ":"JWT","kid":"0a1b2c3d"}`)) + "." + e.EncodeToString(claims)
	return text + "." + e.EncodeToString(ed25519.Sign(c.nonce, []byte(text)))
}

// verify returns what a nonce claims, if it is one of ours and in time.
func (c *Cluster) verify(token string) (identity.NonceClaims, error) {
	claims, err := identity.DecodeNonceUnverified(token)
	if err != nil {
		return claims, err
	}
	for i := len(token) - 1; i >= 0; i-- {
		if token[i] != '.' {
			continue
		}
		signature, err := base64.RawURLEncoding.DecodeString(token[i+1:])
		public, _ := c.nonce.Public().(ed25519.PublicKey)
		if err != nil || !ed25519.Verify(public, []byte(token[:i]), signature) {
			return claims, errors.New("foreign signature")
		}
		break
	}
	if time.Now().After(claims.Expiry()) || claims.Kind != identity.NonceOperator {
		return claims, errors.New("expired, or not for an operator")
	}
	return claims, nil
}

// Issue returns the certificate, PEM, of an operator over a public key, from five minutes
// ago until the end of its life.
func (c *Cluster) Issue(public ed25519.PublicKey, tenant string, id identity.ID) []byte {
	c.mu.Lock()
	ttl := c.ttl
	c.mu.Unlock()
	return c.sign(&x509.Certificate{
		Subject:         pkix.Name{CommonName: c.ID, Organization: []string{tenant}},
		NotBefore:       time.Now().Add(-5 * time.Minute),
		NotAfter:        time.Now().Add(ttl),
		URIs:            []*url.URL{identity.OperatorURI(c.ID, id)},
		KeyUsage:        x509.KeyUsageDigitalSignature,
		ExtKeyUsage:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		ExtraExtensions: []pkix.Extension{identity.RoleExtension(identity.RoleOperator)},
	}, public)
}

func (c *Cluster) sign(template *x509.Certificate, public ed25519.PublicKey) []byte {
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

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Operator is the identity of an operator, made for package shards.
type Operator struct {
	cert  tls.Certificate
	roots *x509.CertPool
}

// Operator returns a registered operator of tenant.
func (c *Cluster) Operator(tenant string) *Operator {
	key := newKey(c.t)
	public, _ := key.Public().(ed25519.PublicKey)
	id, err := identity.NewID(identity.OperatorPrefix)
	if err != nil {
		c.t.Fatal(err)
	}
	block, _ := pem.Decode(c.Issue(public, tenant, id))
	return &Operator{tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}, c.Roots()}
}

// ClientTLS returns the settings of a connection to a server that proves the name.
func (o *Operator) ClientTLS(serverName string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: o.roots, ServerName: serverName, Certificates: []tls.Certificate{o.cert},
	}
}

// serverTLS returns the settings of a server of a shard. Who comes without a certificate
// may register and nothing else.
func (c *Cluster) serverTLS(shard string) *tls.Config {
	key := newKey(c.t)
	public, _ := key.Public().(ed25519.PublicKey)
	block, _ := pem.Decode(c.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "server"},
		NotBefore:   time.Now().Add(-5 * time.Minute),
		NotAfter:    time.Now().Add(43800 * time.Hour),
		DNSNames:    []string{identity.ServerName(shard, c.ID), identity.AnyServerName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, public))
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{{Certificate: [][]byte{block.Bytes}, PrivateKey: key}},
		ClientAuth:             tls.VerifyClientCertIfGiven,
		ClientCAs:              c.Roots(),
		SessionTicketsDisabled: true,
	}
}

// DialContext connects to the server at an address, or fails as a closed port does.
func (c *Cluster) DialContext(ctx context.Context, address string) (net.Conn, error) {
	c.mu.Lock()
	listener := c.servers[address]
	c.dials = append(c.dials, address)
	c.mu.Unlock()
	if listener == nil {
		return nil, fmt.Errorf("dial %s: connection refused", address)
	}
	return listener.DialContext(ctx)
}

// Dials returns the addresses that have been dialled, in order.
func (c *Cluster) Dials() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.dials...)
}
