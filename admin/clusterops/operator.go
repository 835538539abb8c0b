package clusterops

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

// ErrOperatorExists is about an id that has been given away.
var ErrOperatorExists = errors.New("operator exists")

// OperatorRequest describes an operator that is to be registered.
type OperatorRequest struct {
	ClusterID    string
	Tenant       string
	Role         identity.Role // an operator's or a viewer's; empty: an operator's
	ID           identity.ID   // empty: a new one
	PublicKeyPEM []byte        // nil: a new key pair
	TTL          time.Duration // of the certificate; zero: pki.DefaultOperatorTTL
	Now          time.Time
}

// Operator is a registered operator and all that it needs.
type Operator struct {
	ID       identity.ID
	CertPEM  []byte
	CAPEM    []byte
	KeyPEM   secrets.Secret // nil where the public key was given
	NotAfter time.Time
}

// RegisterOperator issues a certificate and stores the operator's record, before
// which the certificate is good for nothing. An id that is taken is an error
// that matches [ErrOperatorExists].
func (c *Cluster) RegisterOperator(ctx context.Context, r OperatorRequest) (Operator, error) {
	if err := checkNames(r.ClusterID, r.Tenant); err != nil {
		return Operator{}, err
	}
	public, private, err := keyPair(r.PublicKeyPEM)
	if err != nil {
		return Operator{}, err
	}
	id, err := operatorID(r.ID)
	if err != nil {
		return Operator{}, err
	}
	ca, err := pki.EnsureCA(ctx, c.secrets, c.objects, r.ClusterID, pki.CATemplate{}, pki.Options{})
	if err != nil {
		return Operator{}, notSetUp(err)
	}
	authority := pki.NewAuthority(ca, r.ClusterID, func() time.Time { return r.Now }, nil)
	cert, err := authority.IssueOperator(pki.OperatorRequest{PublicKey: public, ID: id, Tenant: r.Tenant, Role: r.Role, TTL: r.TTL})
	if err != nil {
		return Operator{}, fmt.Errorf("register operator %s: %w", id, err)
	}
	if err := c.record(ctx, r, id, public, cert); err != nil {
		return Operator{}, err
	}
	return Operator{ID: id, CertPEM: cert.PEM, CAPEM: ca.Bundle(), KeyPEM: private, NotAfter: cert.NotAfter}, nil
}

// CheckOperator says why [Cluster.RegisterOperator] would refuse, and writes nothing.
func (c *Cluster) CheckOperator(ctx context.Context, r OperatorRequest) error {
	if err := checkNames(r.ClusterID, r.Tenant); err != nil {
		return err
	}
	if _, _, err := keyPair(r.PublicKeyPEM); err != nil {
		return err
	}
	id, err := operatorID(r.ID)
	if err != nil {
		return err
	}
	if _, err := pki.EnsureCA(ctx, c.secrets, c.objects, r.ClusterID, pki.CATemplate{}, pki.Options{}); err != nil {
		return notSetUp(err)
	}
	_, err = c.objects.Get(ctx, layout.OperatorRecord{ID: id, Tenant: r.Tenant}.Key())
	switch {
	case errors.Is(err, objectstore.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("register operator %s: %w", id, err)
	}
	return errTaken(id, r.Tenant)
}

func errTaken(id identity.ID, tenant string) error {
	return fmt.Errorf("%w: %s of tenant %s; leave the id out to get a new one", ErrOperatorExists, id, tenant)
}

func (c *Cluster) record(ctx context.Context, r OperatorRequest, id identity.ID, public ed25519.PublicKey, cert pki.Certificate) error {
	publicPEM, err := pki.EncodePublicKey(public)
	if err != nil {
		return err
	}
	record := layout.OperatorRecord{
		ID: id, Tenant: r.Tenant, ClusterID: r.ClusterID, PublicKeyPEM: string(publicPEM),
		Certificate:  layout.Certificate{Serial: cert.Serial, NotBefore: layout.At(cert.NotBefore), NotAfter: layout.At(cert.NotAfter)},
		RegisteredAt: layout.At(r.Now), Role: r.Role,
	}
	data, err := record.Encode()
	if err != nil {
		return err
	}
	_, err = objectstore.Put(ctx, c.objects, record.Key(), data, "", objectstore.RetryPolicy{})
	if errors.Is(err, objectstore.ErrPrecondition) {
		return errTaken(id, r.Tenant)
	}
	if err != nil {
		return fmt.Errorf("register operator %s: %w", id, err)
	}
	return nil
}

// keyPair reads the given public key, or makes a pair.
func keyPair(publicPEM []byte) (ed25519.PublicKey, secrets.Secret, error) {
	if publicPEM != nil {
		public, err := pki.ParsePublicKey(publicPEM)
		return public, nil, err
	}
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		return nil, nil, err
	}
	private, err := pki.EncodePrivateKeys(key)
	if err != nil {
		return nil, nil, err
	}
	return key.Public().(ed25519.PublicKey), private, nil
}

func operatorID(given identity.ID) (identity.ID, error) {
	if given == "" {
		return identity.NewID(identity.OperatorPrefix)
	}
	id, err := identity.ParseID(given.String())
	if err != nil {
		return "", fmt.Errorf("id of the operator: %w", err)
	}
	if id.Prefix() != identity.OperatorPrefix {
		return "", fmt.Errorf("id of the operator: %s does not begin with %q", id, identity.OperatorPrefix)
	}
	return id, nil
}
