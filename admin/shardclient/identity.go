package shardclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"nstance.dev/protos/identity"
)

// Names of the files in an identity folder.
const (
	CAFile   = "ca.crt"       // certificates of the cluster's authority
	CertFile = "identity.crt" // the operator's certificate
	KeyFile  = "identity.key" // its private key
)

// ErrIdentity is matched by every error about the files of an identity folder.
var ErrIdentity = errors.New("operator identity")

// Identity is what an operator proves itself with, and whom it trusts.
type Identity struct {
	Peer  identity.Peer
	cert  tls.Certificate
	roots *x509.CertPool
}

// LoadIdentity reads an identity folder. The certificate must be an operator's
// or a viewer's, of the given cluster and tenant where these are not empty, and not
// have ended at now. Errors match [ErrIdentity].
func LoadIdentity(dir, cluster, tenant string, now time.Time) (*Identity, error) {
	id, err := loadIdentity(dir)
	if err == nil {
		err = id.check(cluster, tenant, now)
	}
	if err != nil {
		return nil, fmt.Errorf("%w in %s: %w", ErrIdentity, dir, err)
	}
	return id, nil
}

func loadIdentity(dir string) (*Identity, error) {
	ca, err := os.ReadFile(filepath.Join(dir, CAFile))
	if err != nil {
		return nil, err
	}
	id := &Identity{roots: x509.NewCertPool()}
	if !id.roots.AppendCertsFromPEM(ca) {
		return nil, errors.New(CAFile + " holds no certificate")
	}
	id.cert, err = tls.LoadX509KeyPair(filepath.Join(dir, CertFile), filepath.Join(dir, KeyFile))
	if err != nil {
		return nil, err
	}
	id.Peer, err = identity.PeerFromCertificate(id.cert.Leaf)
	return id, err
}

func (id *Identity) check(cluster, tenant string, now time.Time) error {
	if err := id.Peer.RequireOperates(); err != nil {
		return err
	}
	switch {
	case cluster != "" && id.Peer.Cluster != cluster:
		return fmt.Errorf("it is of cluster %q, and the context is about %q", id.Peer.Cluster, cluster)
	case tenant != "" && id.Peer.Tenant != tenant:
		return fmt.Errorf("it is of tenant %q, and the context is about %q", id.Peer.Tenant, tenant)
	case now.After(id.Peer.NotAfter):
		return fmt.Errorf("the certificate has ended on %s; make a new one with nstance-admin cluster register-operator",
			id.Peer.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// Roots returns the authority of the cluster.
func (id *Identity) Roots() *x509.CertPool { return id.roots }

// tlsConfig binds a connection to one shard of the cluster, whatever the address.
func (id *Identity) tlsConfig(shard string) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{id.cert},
		RootCAs:      id.roots,
		ServerName:   identity.ServerName(shard, id.Peer.Cluster),
	}
}
