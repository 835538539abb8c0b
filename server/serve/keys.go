package serve

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"nstance.dev/server/config"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
	"nstance.dev/server/shard"
)

// keyring holds the cluster's keys once they exist: the cluster leader makes
// them, every other server waits until they can be read.
type keyring struct {
	cluster string
	store   objectstore.Store
	secrets secrets.Store
	ca      pki.CATemplate
	log     *slog.Logger
	now     func() time.Time

	keys  atomic.Pointer[shard.Keys]
	ready chan struct{} // closed once keys are there
	try   chan struct{} // asks for a look now; has room for one

	mu         sync.Mutex
	leadership context.Context //nolint:containedctx // the cluster's, valid or over: it bounds the making of keys; nil: never had it
}

// keyPoll is how often a server looks for keys that another one is to make.
const keyPoll = 5 * time.Second

func newKeyring(ctx context.Context, store objectstore.Store, cfg *config.Config, log *slog.Logger) (*keyring, error) {
	sealed, err := openSecrets(ctx, store, cfg.Server.Secrets, log)
	if err != nil {
		return nil, err
	}
	return &keyring{
		cluster: cfg.Server.ClusterID, store: store, secrets: sealed, ca: caTemplate(cfg), log: log, now: time.Now,
		ready: make(chan struct{}), try: make(chan struct{}, 1),
	}, nil
}

// openSecrets opens the store that the configuration names.
func openSecrets(ctx context.Context, store objectstore.Store, s config.Secrets, log *slog.Logger) (secrets.Store, error) {
	if s.Provider != config.SecretsObjectStorage {
		return nil, fmt.Errorf("server.secrets.provider: this server knows %s, not %s", config.SecretsObjectStorage, s.Provider)
	}
	var current secrets.KeySource
	if s.EncryptionKey != nil {
		opened, err := secrets.OpenKeySource(s.EncryptionKey.Provider, s.EncryptionKey.Source)
		if err != nil {
			return nil, fmt.Errorf("server.secrets.encryption_key: %w", err)
		}
		current = opened
	}
	var old []secrets.KeySource
	for i, source := range s.OldEncryptionKeys {
		opened, err := secrets.OpenKeySource(source.Provider, source.Source)
		if err != nil {
			return nil, fmt.Errorf("server.secrets.old_encryption_keys[%d]: %w", i, err)
		}
		old = append(old, opened)
	}
	keys, err := secrets.LoadKeys(ctx, current, old...)
	if err != nil {
		return nil, fmt.Errorf("server.secrets: %w", err)
	}
	sealed, err := secrets.NewSealed(store, s.Prefix, keys)
	if err != nil {
		return nil, fmt.Errorf("server.secrets: %w", err)
	}
	if sealed.Plaintext() {
		log.WarnContext(ctx, "SECRETS ARE STORED IN THE CLEAR: set server.secrets.encryption_key")
	}
	if ttl := s.CacheTTL.Std(); ttl > 0 {
		return secrets.NewCached(sealed, ttl, time.Now), nil
	}
	return sealed, nil
}

func caTemplate(cfg *config.Config) pki.CATemplate {
	c, ok := cfg.Certificates[config.CertificateCA]
	if !ok {
		return pki.CATemplate{}
	}
	return pki.CATemplate{TTL: c.TTL.Std(), Subject: pkix.Name{
		CommonName: c.CN, Organization: c.Organization, Country: c.Country, Province: c.Province,
		Locality: c.Locality, StreetAddress: c.Street, PostalCode: c.PostalCode,
	}}
}

// current returns the keys, nil until they are there.
func (k *keyring) current() *shard.Keys { return k.keys.Load() }

// lead lets the keyring make keys for as long as ctx proves the leadership of the
// cluster.
func (k *keyring) lead(ctx context.Context) {
	k.mu.Lock()
	k.leadership = ctx
	k.mu.Unlock()
	select {
	case k.try <- struct{}{}:
	default:
	}
}

// run looks for the keys until they are there. What cannot mend itself, such as
// a certificate whose key is lost, is returned.
func (k *keyring) run(ctx context.Context) error {
	ticker := time.NewTicker(keyPoll)
	defer ticker.Stop()
	for {
		keys, err := k.load(ctx)
		switch {
		case err == nil:
			k.keys.Store(keys)
			close(k.ready)
			return nil
		case errors.Is(err, pki.ErrCAKeyMissing), errors.Is(err, pki.ErrCAMismatch), errors.Is(err, pki.ErrCAUnreadable):
			return fmt.Errorf("keys of cluster %s: %w", k.cluster, err)
		case !errors.Is(err, pki.ErrNotInitialized) && ctx.Err() == nil:
			k.log.WarnContext(ctx, "keys not read", "retry_in", keyPoll, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.try:
		case <-ticker.C:
		}
	}
}

func (k *keyring) load(ctx context.Context) (*shard.Keys, error) {
	k.mu.Lock()
	lead := k.leadership
	k.mu.Unlock()
	opts := pki.Options{Create: lead != nil && lease.Check(lead) == nil, Now: k.now}
	if opts.Create {
		ctx = lead
	}
	ca, err := pki.EnsureCA(ctx, k.secrets, k.store, k.cluster, k.ca, opts)
	if err != nil {
		return nil, err
	}
	private, err := pki.EnsureNonceKeys(ctx, k.secrets, opts)
	if err != nil {
		return nil, err
	}
	signer, err := pki.NewNonceSigner(private, nil)
	if err != nil {
		return nil, err
	}
	authority := pki.NewAuthority(ca, k.cluster, k.now, nil)
	return &shard.Keys{Authority: authority, Nonces: signer, Verifier: pki.NewNonceVerifier(k.cluster, private)}, nil
}
