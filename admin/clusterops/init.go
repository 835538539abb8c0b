package clusterops

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/document"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
)

// Initialized says what [Cluster.Init] found or made.
type Initialized struct {
	CAMade      bool // false: it was there
	NonceMade   bool
	Fingerprint string // SHA-256 of the authority's certificate, in hex
	NotAfter    time.Time
}

// selfTestKey is where the store is tested; servers test it elsewhere.
const selfTestKey = "leader/self-test-cluster-init"

// Init makes the authority and the key of nonces of a cluster, each if it is
// absent, as the first leader would: in an empty bucket, before there is any
// server. It may be repeated, and run beside servers. A store that ignores
// conditions is refused, and so are configurations of another cluster.
func (c *Cluster) Init(ctx context.Context, cluster string, now time.Time) (Initialized, error) {
	if err := identity.ValidateName(cluster); err != nil {
		return Initialized{}, fmt.Errorf("id of the cluster: %w", err)
	}
	template, err := c.caTemplate(ctx, cluster)
	if err != nil {
		return Initialized{}, err
	}
	if _, err := objectstore.SelfTest(ctx, c.objects, selfTestKey); err != nil {
		return Initialized{}, err
	}
	var done Initialized
	found := pki.Options{Now: func() time.Time { return now }}
	made := found
	made.Create = true

	ca, err := pki.EnsureCA(ctx, c.secrets, c.objects, cluster, template, found)
	if errors.Is(err, pki.ErrNotInitialized) {
		done.CAMade = true
		ca, err = pki.EnsureCA(ctx, c.secrets, c.objects, cluster, template, made)
	}
	if err != nil {
		return Initialized{}, fmt.Errorf("authority of cluster %s: %w", cluster, err)
	}
	sum := sha256.Sum256(ca.Certificate().Raw)
	done.Fingerprint, done.NotAfter = hex.EncodeToString(sum[:]), ca.Certificate().NotAfter

	_, err = pki.EnsureNonceKeys(ctx, c.secrets, found)
	if errors.Is(err, pki.ErrNotInitialized) {
		done.NonceMade = true
		_, err = pki.EnsureNonceKeys(ctx, c.secrets, made)
	}
	if err != nil {
		return Initialized{}, fmt.Errorf("nonce key of cluster %s: %w", cluster, err)
	}
	return done, nil
}

// PlanInit says what [Cluster.Init] would find or make, and writes nothing. The fingerprint of an
// authority that is yet to be made is empty. How the store treats conditions is not tried out, because that takes
// writing.
func (c *Cluster) PlanInit(ctx context.Context, cluster string, now time.Time) (Initialized, error) {
	if err := identity.ValidateName(cluster); err != nil {
		return Initialized{}, fmt.Errorf("id of the cluster: %w", err)
	}
	template, err := c.caTemplate(ctx, cluster)
	if err != nil {
		return Initialized{}, err
	}
	var plan Initialized
	found := pki.Options{Now: func() time.Time { return now }}
	switch ca, err := pki.EnsureCA(ctx, c.secrets, c.objects, cluster, template, found); {
	case errors.Is(err, pki.ErrNotInitialized):
		plan.CAMade = true
	case err != nil:
		return Initialized{}, fmt.Errorf("authority of cluster %s: %w", cluster, err)
	default:
		sum := sha256.Sum256(ca.Certificate().Raw)
		plan.Fingerprint, plan.NotAfter = hex.EncodeToString(sum[:]), ca.Certificate().NotAfter
	}
	switch _, err := pki.EnsureNonceKeys(ctx, c.secrets, found); {
	case errors.Is(err, pki.ErrNotInitialized):
		plan.NonceMade = true
	case err != nil:
		return Initialized{}, fmt.Errorf("nonce key of cluster %s: %w", cluster, err)
	}
	return plan, nil
}

// caTemplate is what the stored configurations, if there are any, say about the
// certificate of the authority.
func (c *Cluster) caTemplate(ctx context.Context, cluster string) (pki.CATemplate, error) {
	cfg, err := c.anyConfig(ctx)
	if err != nil || cfg == nil {
		return pki.CATemplate{}, err
	}
	if id := cfg.Server.ClusterID; id != cluster {
		return pki.CATemplate{}, fmt.Errorf("%w: the configurations in the bucket are those of cluster %q, not %q", ErrSettings, id, cluster)
	}
	ca, ok := cfg.Certificates[document.CertificateCA]
	if !ok {
		return pki.CATemplate{}, nil
	}
	return pki.CATemplate{TTL: ca.TTL.Std(), Subject: ca.Subject()}, nil
}
