// Package clusterops does for a cluster what no server is asked for: it works on
// the cluster's storage and secrets directly, and so needs to reach them and to
// have the encryption key.
//
// [Open] connects to both. [Cluster.Init] makes the keys of a cluster before it has
// servers, [Cluster.Nonce] the token with which an operator registers itself,
// [Cluster.RegisterOperator] registers one here and now: they only add, and any
// number of them may run beside servers. [Cluster.RotateEncryption] and
// [Cluster.RotateNonce] change keys under running servers, and [Cluster.Inspect]
// shows what is stored.
//
// Tokens and private keys are returned or written to private files; no error
// contains them.
package clusterops

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/objectstore"
	objectbackends "nstance.dev/server/objectstore/backends"
	"nstance.dev/server/secrets"
	secretbackends "nstance.dev/server/secrets/backends"
)

// ErrSettings is matched by every error about settings that do not say where the
// cluster is, or say something that this build cannot do.
var ErrSettings = errors.New("storage of the cluster")

// Choices with a meaning of their own.
const (
	StorageFile          = objectbackends.File
	SecretsObjectStorage = document.SecretsObjectStorage
)

// Settings say where a cluster keeps its state. They must be those of its
// servers.
type Settings struct {
	ClusterID       string // empty: what the stored configurations say, where it is needed
	StorageProvider string // a kind of storage
	Bucket          string // its name; for StorageFile a folder, which must exist
	Prefix          string // of all keys; empty: none
	SecretsProvider string // as server.secrets.provider of a configuration
	SecretsPrefix   string // empty: that of document.SecretsPrefix
	SecretsProject  string // of the secrets, and of the key, in Google Secret Manager
	KeyProvider     string // where the encryption key comes from; for SecretsObjectStorage alone, and required there
	KeySource       string

	Clients secretbackends.Clients // the zero value is for the clouds themselves
}

// Cluster is the state of a cluster.
type Cluster struct {
	objects objectstore.Store
	secrets secrets.Store
}

// Open connects to the state that the settings name. Errors about the settings
// match [ErrSettings].
func Open(ctx context.Context, s Settings) (*Cluster, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	objects, err := openObjects(ctx, s)
	if err != nil {
		return nil, err
	}
	c := &Cluster{objects: objects}
	if s.SecretsPrefix == "" {
		id := s.ClusterID
		if id == "" && s.SecretsProvider != SecretsObjectStorage {
			if id, err = c.ClusterID(ctx); err != nil {
				return nil, fmt.Errorf("prefix of the secrets: %w", err)
			}
		}
		s.SecretsPrefix = document.SecretsPrefix(s.SecretsProvider, id)
	}
	if c.secrets, err = s.Clients.Open(ctx, objects, s.secrets()); err != nil {
		return nil, err
	}
	return c, nil
}

func (s Settings) check() error {
	sealed := s.SecretsProvider == SecretsObjectStorage
	google := s.SecretsProvider == document.SecretsGoogleSecretManager || s.KeyProvider == document.SecretsGoogleSecretManager
	switch {
	case document.SecretsPrefix(s.SecretsProvider, "x") == "":
		return fmt.Errorf("%w: unknown secrets provider %q", ErrSettings, s.SecretsProvider)
	case sealed && s.KeyProvider == "":
		return fmt.Errorf("%w: the encryption key of its secrets is needed: name its provider, such as %s or %s",
			ErrSettings, document.KeyFromEnv, document.KeyFromFile)
	case !sealed && s.KeyProvider != "":
		return fmt.Errorf("%w: secrets provider %q encrypts by itself and takes no key", ErrSettings, s.SecretsProvider)
	case google && s.SecretsProject == "":
		return fmt.Errorf("%w: %s needs the project of the secrets", ErrSettings, document.SecretsGoogleSecretManager)
	case !google && s.SecretsProject != "":
		return fmt.Errorf("%w: secrets provider %q has no projects", ErrSettings, s.SecretsProvider)
	case s.ClusterID != "" && identity.ValidateName(s.ClusterID) != nil:
		return fmt.Errorf("%w: id of the cluster: %w", ErrSettings, identity.ValidateName(s.ClusterID))
	}
	return nil
}

// secrets are the settings as a configuration has them.
func (s Settings) secrets() document.Secrets {
	out := document.Secrets{Provider: s.SecretsProvider, Prefix: s.SecretsPrefix, ProjectID: s.SecretsProject}
	if s.KeyProvider != "" {
		out.EncryptionKey = &document.KeySource{Provider: s.KeyProvider, Source: s.KeySource, ProjectID: s.SecretsProject}
	}
	return out
}

// New returns the cluster with this state.
func New(objects objectstore.Store, secrets secrets.Store) *Cluster {
	return &Cluster{objects: objects, secrets: secrets}
}

func openObjects(ctx context.Context, s Settings) (objectstore.Store, error) {
	objects, err := objectbackends.Open(ctx, objectbackends.Location{Kind: s.StorageProvider, Bucket: s.Bucket, Prefix: s.Prefix})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	return objects, nil
}

const configPrefix = "config/"

// ClusterID returns the cluster that the stored configurations of all shards
// name. There must be one, and they must agree.
func (c *Cluster) ClusterID(ctx context.Context) (string, error) {
	cfg, err := c.anyConfig(ctx)
	if err != nil {
		return "", err
	}
	if cfg == nil {
		return "", errors.New("id of the cluster: the bucket has no config/*.jsonc that would tell; name the cluster yourself")
	}
	return cfg.Server.ClusterID, nil
}

// anyConfig returns one of the stored configurations, all of which must be of one
// cluster; nil if there is none.
func (c *Cluster) anyConfig(ctx context.Context) (*effective.Config, error) {
	var found *effective.Config
	from := ""
	for stored, err := range c.configs(ctx) {
		if err != nil {
			return nil, fmt.Errorf("id of the cluster: %w", err)
		}
		if found != nil && found.Server.ClusterID != stored.cfg.Server.ClusterID {
			return nil, fmt.Errorf("id of the cluster: %s says %q, and %s says %q; name the cluster yourself",
				from, found.Server.ClusterID, stored.key, stored.cfg.Server.ClusterID)
		}
		found, from = stored.cfg, stored.key
	}
	return found, nil
}

// storedConfig is a configuration and where it is stored.
type storedConfig struct {
	key string
	cfg *effective.Config
}

// configs yields the stored configurations of all shards, and the error that ends them.
func (c *Cluster) configs(ctx context.Context) iter.Seq2[storedConfig, error] {
	return func(yield func(storedConfig, error) bool) {
		for info, err := range objectstore.ListAll(ctx, c.objects, configPrefix) {
			if err != nil {
				yield(storedConfig{}, err)
				return
			}
			if !strings.HasSuffix(info.Key, ".jsonc") {
				continue
			}
			object, err := c.objects.Get(ctx, info.Key)
			if err != nil {
				yield(storedConfig{}, err)
				return
			}
			cfg, err := config.Load(info.Key, object.Data, config.LoadOptions{})
			if err != nil {
				yield(storedConfig{}, fmt.Errorf("a configuration is invalid, so name the cluster yourself: %w", err))
				return
			}
			if !yield(storedConfig{info.Key, cfg}, nil) {
				return
			}
		}
	}
}

// checkTenant refuses a tenant that no stored configuration has, and says which there are.
// Without configurations, or with one that cannot be read, nobody knows.
func (c *Cluster) checkTenant(ctx context.Context, tenant string) error {
	known := map[string]bool{}
	for stored, err := range c.configs(ctx) {
		if err != nil || stored.cfg.HasTenant(tenant) {
			return nil
		}
		known[document.DefaultTenant] = true
		for name := range stored.cfg.Tenants {
			known[name] = true
		}
	}
	if len(known) == 0 {
		return nil
	}
	return fmt.Errorf("tenant %q: no configuration in the bucket has it; they have %s (add it to `tenants` of a shard's configuration first)",
		tenant, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
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
