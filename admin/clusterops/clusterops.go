// Package clusterops does for a cluster what no server is asked for: it works on
// the cluster's storage and secrets directly, and so needs to reach them and to
// have the encryption key.
//
// [Open] connects to both. [Cluster.Nonce] makes the token with which an operator
// registers itself, [Cluster.RegisterOperator] registers one here and now. Both
// only add: they change nothing that is there, and any number of them may run
// beside servers.
//
// Tokens and private keys are returned or written to private files; no error
// contains them.
package clusterops

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/backends"
	"nstance.dev/server/secrets"
)

// ErrSettings is matched by every error about settings that do not say where the
// cluster is, or say something that this build cannot do.
var ErrSettings = errors.New("storage of the cluster")

// Choices of this build; of storage it has all that backends lists.
const (
	StorageFile          = backends.File
	SecretsObjectStorage = "object-storage"
)

// otherSecrets are choices that are known and that this build lacks.
var otherSecrets = []string{"aws-secrets-manager", "google-secret-manager"}

// Settings say where a cluster keeps its state. They must be those of its
// servers.
type Settings struct {
	StorageProvider string // a kind of storage
	Bucket          string // its name; for StorageFile a folder, which must exist
	Prefix          string // of all keys; empty: none
	SecretsProvider string // SecretsObjectStorage
	SecretsPrefix   string // empty: secrets.DefaultPrefix
	SecretsProject  string // only for secrets stores that this build lacks; must be empty
	KeyProvider     string // where the encryption key comes from, as secrets.OpenKeySource takes it
	KeySource       string
}

// Cluster is the state of a cluster.
type Cluster struct {
	objects objectstore.Store
	secrets secrets.Store
}

// Open connects to the state that the settings name. Errors about the settings
// match [ErrSettings].
func Open(ctx context.Context, s Settings) (*Cluster, error) {
	objects, err := openObjects(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := choice("secrets provider", s.SecretsProvider, SecretsObjectStorage, otherSecrets); err != nil {
		return nil, err
	}
	if s.SecretsProject != "" {
		return nil, fmt.Errorf("%w: secrets provider %q has no projects", ErrSettings, s.SecretsProvider)
	}
	if s.KeyProvider == "" {
		return nil, fmt.Errorf("%w: the encryption key of its secrets is needed: name its provider, %s or %s",
			ErrSettings, secrets.KeyProviderEnv, secrets.KeyProviderFile)
	}
	source, err := secrets.OpenKeySource(s.KeyProvider, s.KeySource)
	if err != nil {
		return nil, err
	}
	keys, err := secrets.LoadKeys(ctx, source)
	if err != nil {
		return nil, err
	}
	sealed, err := secrets.NewSealed(objects, s.SecretsPrefix, keys)
	if err != nil {
		return nil, err
	}
	return New(objects, sealed), nil
}

// New returns the cluster with this state.
func New(objects objectstore.Store, secrets secrets.Store) *Cluster {
	return &Cluster{objects: objects, secrets: secrets}
}

func openObjects(ctx context.Context, s Settings) (objectstore.Store, error) {
	objects, err := backends.Open(ctx, backends.Location{Kind: s.StorageProvider, Bucket: s.Bucket, Prefix: s.Prefix})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	return objects, nil
}

func choice(what, got, here string, elsewhere []string) error {
	if got == here {
		return nil
	}
	for _, name := range elsewhere {
		if got == name {
			return fmt.Errorf("%w: %s %q is not in this build, which has %q only", ErrSettings, what, got, here)
		}
	}
	return fmt.Errorf("%w: unknown %s %q; this build has %q", ErrSettings, what, got, here)
}

const configPrefix = "config/"

// ClusterID returns the cluster that the stored configurations of all shards
// name. There must be one, and they must agree.
func (c *Cluster) ClusterID(ctx context.Context) (string, error) {
	id, from := "", ""
	for info, err := range objectstore.ListAll(ctx, c.objects, configPrefix) {
		if err != nil {
			return "", fmt.Errorf("id of the cluster: %w", err)
		}
		if !strings.HasSuffix(info.Key, ".jsonc") {
			continue
		}
		object, err := c.objects.Get(ctx, info.Key)
		if err != nil {
			return "", fmt.Errorf("id of the cluster: %w", err)
		}
		cfg, err := config.Load(info.Key, object.Data, config.LoadOptions{})
		if err != nil {
			return "", fmt.Errorf("id of the cluster: a configuration is invalid, so name the cluster yourself: %w", err)
		}
		if id != "" && id != cfg.Server.ClusterID {
			return "", fmt.Errorf("id of the cluster: %s says %q, and %s says %q; name the cluster yourself",
				from, id, info.Key, cfg.Server.ClusterID)
		}
		id, from = cfg.Server.ClusterID, info.Key
	}
	if id == "" {
		return "", errors.New("id of the cluster: the bucket has no config/*.jsonc that would tell; name the cluster yourself")
	}
	return id, nil
}

// checkNames checks what becomes part of keys and certificates.
func checkNames(cluster, tenant string) error {
	if err := identity.ValidateName(cluster); err != nil {
		return fmt.Errorf("id of the cluster: %w", err)
	}
	if err := identity.ValidateName(tenant); err != nil {
		return fmt.Errorf("tenant: %w", err)
	}
	return nil
}
