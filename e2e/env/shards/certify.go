package shards

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/document"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/backends"
	"nstance.dev/server/pki"
	keeping "nstance.dev/server/secrets/backends"
)

// Certify registers who has the private key of a public key, in PEM, as an operator of the
// default tenant, and returns a certificate, in PEM, that is good for the given time only: servers
// issue none that are over within an hour.
func (c *Cluster) Certify(publicKeyPEM string, good time.Duration) []byte {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	certificate, err := c.certify(ctx, publicKeyPEM, good)
	if err != nil {
		c.t.Fatalf("certify an operator: %v", err)
	}
	return certificate
}

func (c *Cluster) certify(ctx context.Context, publicKeyPEM string, good time.Duration) ([]byte, error) {
	store, err := backends.Open(ctx, backends.Location{Kind: backends.File, Bucket: c.bucket()})
	if err != nil {
		return nil, err
	}
	authority, err := c.authority(ctx, store)
	if err != nil {
		return nil, err
	}
	key, err := pki.ParsePublicKey([]byte(publicKeyPEM))
	if err != nil {
		return nil, err
	}
	id, err := identity.NewID(identity.OperatorPrefix)
	if err != nil {
		return nil, err
	}
	cert, err := authority.IssueOperator(pki.OperatorRequest{PublicKey: key, ID: id, Tenant: Tenant, TTL: good})
	if err != nil {
		return nil, err
	}
	record := layout.OperatorRecord{
		ID: id, Tenant: Tenant, ClusterID: ClusterID, PublicKeyPEM: publicKeyPEM, RegisteredAt: layout.At(time.Now()),
		Certificate: layout.Certificate{Serial: cert.Serial, NotBefore: layout.At(cert.NotBefore), NotAfter: layout.At(cert.NotAfter)},
	}
	data, err := record.Encode()
	if err != nil {
		return nil, err
	}
	if _, err := objectstore.Put(ctx, store, record.Key(), data, "", objectstore.RetryPolicy{}); err != nil {
		return nil, fmt.Errorf("write %s: %w", record.Key(), err)
	}
	return cert.PEM, nil
}

// authority is that of the cluster, with its private key.
func (c *Cluster) authority(ctx context.Context, store objectstore.Store) (*pki.Authority, error) {
	secrets, err := keeping.Clients{}.Open(ctx, store, document.Secrets{
		Provider: document.SecretsObjectStorage, Prefix: document.SecretsPrefix(document.SecretsObjectStorage, ClusterID),
		EncryptionKey: &document.KeySource{Provider: document.KeyFromFile, Source: c.box.KeyPath()},
	})
	if err != nil {
		return nil, err
	}
	ca, err := pki.EnsureCA(ctx, secrets, store, ClusterID, pki.CATemplate{}, pki.Options{})
	if err != nil {
		return nil, err
	}
	return pki.NewAuthority(ca, ClusterID, time.Now, nil), nil
}

// Withdraw deletes the record of the operator that has the private key of a public key, in PEM. A server that runs
// refuses it within minutes, one that is started then at once.
func (c *Cluster) Withdraw(publicKeyPEM string) {
	c.t.Helper()
	records, err := filepath.Glob(filepath.Join(c.bucket(), "operator", "*.json"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, path := range records {
		data, err := os.ReadFile(path)
		if err != nil {
			c.t.Fatal(err)
		}
		record, err := layout.DecodeOperatorRecord("operator/"+filepath.Base(path), data)
		if err != nil {
			c.t.Fatal(err)
		}
		if strings.TrimSpace(record.PublicKeyPEM) != strings.TrimSpace(publicKeyPEM) {
			continue
		}
		if err := os.Remove(path); err != nil {
			c.t.Fatal(err)
		}
		return
	}
	c.t.Fatalf("none of %d operators has this key", len(records))
}
