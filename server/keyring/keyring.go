// Package keyring holds the keys of the cluster as one server has them: those of the
// certificate authority and of registration nonces, and the store that the secrets of
// machines are read from.
//
// The leader of the cluster makes the keys; every other server waits until they can be
// read. New nonce keys come into force without a restart.
//
// Everything is safe for concurrent use. There is one mutex, and nothing is called
// while it is locked.
package keyring

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
	"nstance.dev/server/secrets/backends"
)

// Keyring holds the cluster's keys once they exist. Make one with [New], and run it
// with [Keyring.Run].
type Keyring struct {
	cluster string
	store   objectstore.Store
	open    func(context.Context) (secrets.Store, error) // reads the encryption keys anew
	secrets secrets.Store                                // of Run alone
	ttl     time.Duration                                // of what is read for machines
	shared  atomic.Pointer[secrets.Cached]               // the same as secrets, for everybody else
	ca      pki.CATemplate
	log     *slog.Logger
	now     func() time.Time

	keys  atomic.Pointer[pki.Keys]
	ready chan struct{} // closed once keys are there
	try   chan struct{} // asks for a look now; has room for one

	mu         sync.Mutex
	leadership context.Context //nolint:containedctx // the cluster's, valid or over: it bounds the making of keys; nil: never had it
}

// How often a server looks for keys: for those that another one is to make, and
// for new ones, once it has some.
const (
	keyPoll    = 5 * time.Second
	keyRefresh = time.Minute
)

// New opens the secrets store that a configuration names. It reads no keys yet.
func New(ctx context.Context, store objectstore.Store, cfg *effective.Config, log *slog.Logger) (*Keyring, error) {
	open := func(ctx context.Context) (secrets.Store, error) {
		return openSecrets(ctx, store, cfg.Server.Secrets, log)
	}
	opened, err := open(ctx)
	if err != nil {
		return nil, err
	}
	k := &Keyring{
		cluster: cfg.Server.ClusterID, store: store, open: open, ca: caTemplate(cfg), log: log, now: time.Now,
		ttl: cfg.Server.Secrets.CacheTTL.Std(), ready: make(chan struct{}), try: make(chan struct{}, 1),
	}
	k.use(opened)
	return k, nil
}

// use makes a store the one that keys and secrets are read from.
func (k *Keyring) use(store secrets.Store) {
	k.secrets = store
	k.shared.Store(secrets.NewCached(store, k.ttl, k.now))
}

// MachineSecrets returns where the secrets of machines are read from. What was read is
// kept for as long as the configuration's cache_ttl says.
func (k *Keyring) MachineSecrets() secrets.Store { return k.shared.Load() }

// openSecrets opens the store that the configuration names.
func openSecrets(ctx context.Context, store objectstore.Store, s document.Secrets, log *slog.Logger) (secrets.Store, error) {
	opened, err := backends.Clients{}.Open(ctx, store, s)
	if err != nil {
		return nil, fmt.Errorf("server.secrets: %w", err)
	}
	if sealed, ok := opened.(*secrets.Sealed); ok && sealed.Plaintext() {
		log.WarnContext(ctx, "SECRETS ARE STORED IN THE CLEAR: set server.secrets.encryption_key")
	}
	return opened, nil
}

func caTemplate(cfg *effective.Config) pki.CATemplate {
	c, ok := cfg.Certificates[document.CertificateCA]
	if !ok {
		return pki.CATemplate{}
	}
	return pki.CATemplate{TTL: c.TTL.Std(), Subject: c.Subject()}
}

// Current returns the keys in force; nil until they are there.
func (k *Keyring) Current() *pki.Keys { return k.keys.Load() }

// Ready is closed once the keys are there.
func (k *Keyring) Ready() <-chan struct{} { return k.ready }

// Lead lets the keyring make keys for as long as ctx proves the leadership of the
// cluster. It returns at once.
func (k *Keyring) Lead(ctx context.Context) {
	k.mu.Lock()
	k.leadership = ctx
	k.mu.Unlock()
	k.look()
}

// look asks for a look at the stored keys now.
func (k *Keyring) look() {
	select {
	case k.try <- struct{}{}:
	default:
	}
}

// Run looks for the keys until they are there, and then for new ones until ctx
// ends. What cannot mend itself before there are any, such as a certificate whose
// key is lost, is returned; keys that are there stay whatever happens in storage.
func (k *Keyring) Run(ctx context.Context) error {
	if err := k.find(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	ticker := time.NewTicker(keyRefresh)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.try:
		case <-ticker.C:
		}
		if err := k.refresh(ctx); err != nil && ctx.Err() == nil {
			k.log.WarnContext(ctx, "keys not read again; those before stay in force", "error", err)
		}
	}
}

// find returns once the keys are there or ctx ends.
func (k *Keyring) find(ctx context.Context) error {
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
		case errors.Is(err, secrets.ErrUnreadable):
			err = errors.Join(err, k.reopen(ctx))
		}
		if !errors.Is(err, pki.ErrNotInitialized) && ctx.Err() == nil {
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

// refresh takes over the keys of nonces that are stored now. Where they are
// sealed with a key that this process does not have, its source may have got one.
func (k *Keyring) refresh(ctx context.Context) error {
	private, err := pki.EnsureNonceKeys(ctx, k.secrets, pki.Options{})
	if errors.Is(err, secrets.ErrUnreadable) {
		if err := k.reopen(ctx); err != nil {
			return err
		}
		private, err = pki.EnsureNonceKeys(ctx, k.secrets, pki.Options{})
	}
	if err != nil {
		return err
	}
	now := k.Current()
	keys, err := k.nonceKeys(now.Authority, private)
	if err != nil || keys.Verifier.Equal(now.Verifier) && keys.Nonces.KeyID() == now.Nonces.KeyID() {
		return err
	}
	k.keys.Store(keys)
	k.log.InfoContext(ctx, "new nonce keys in force", "key_id", keys.Nonces.KeyID(), "keys", len(private))
	return nil
}

// reopen reads the encryption keys anew, where that works.
func (k *Keyring) reopen(ctx context.Context) error {
	opened, err := k.open(ctx)
	if err != nil {
		return err
	}
	k.use(opened)
	return nil
}

// Check reads the keys without putting them in force, and makes none. Where the
// cluster has none yet the error matches [pki.ErrNotInitialized].
func (k *Keyring) Check(ctx context.Context) error {
	_, err := k.read(ctx, pki.Options{Now: k.now})
	return err
}

// load reads the keys, or makes them, if this server leads the cluster.
func (k *Keyring) load(ctx context.Context) (*pki.Keys, error) {
	k.mu.Lock()
	lead := k.leadership
	k.mu.Unlock()
	opts := pki.Options{Create: lead != nil && lease.Check(lead) == nil, Now: k.now}
	if opts.Create {
		ctx = lead
	}
	return k.read(ctx, opts)
}

func (k *Keyring) read(ctx context.Context, opts pki.Options) (*pki.Keys, error) {
	ca, err := pki.EnsureCA(ctx, k.secrets, k.store, k.cluster, k.ca, opts)
	if err != nil {
		return nil, err
	}
	private, err := pki.EnsureNonceKeys(ctx, k.secrets, opts)
	if err != nil {
		return nil, err
	}
	return k.nonceKeys(pki.NewAuthority(ca, k.cluster, k.now, nil), private)
}

// nonceKeys are the keys of the cluster with these for nonces.
func (k *Keyring) nonceKeys(authority *pki.Authority, private []ed25519.PrivateKey) (*pki.Keys, error) {
	signer, err := pki.NewNonceSigner(private, nil)
	if err != nil {
		return nil, err
	}
	return &pki.Keys{Authority: authority, Nonces: signer, Verifier: pki.NewNonceVerifier(k.cluster, private)}, nil
}
