package dev

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/renameio/v2"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/file"
	"nstance.dev/server/operatorauth"
	"nstance.dev/server/pki"
	"nstance.dev/server/serve"
)

// Box is a directory that holds a whole cluster for trying things out: storage,
// cache, machines, the key that seals its secrets, and the identity of whoever
// uses it. Making what is missing never touches what is there.
type Box struct {
	Dir string // absolute
}

// The one cluster and shard of a box, and the server that runs it.
const (
	Cluster = "dev"
	Shard   = "local"
	server  = "dev"
)

// Machines is the directory of the machines.
func (b Box) Machines() string { return filepath.Join(b.Dir, "machines") }

func (b Box) bucket() string   { return filepath.Join(b.Dir, "bucket") }
func (b Box) identity() string { return filepath.Join(b.Dir, "identity") }
func (b Box) context() string  { return filepath.Join(b.Dir, "admin.json") }
func (b Box) sealKey() string  { return filepath.Join(b.Dir, "encryption.key") }

// Flags are those of a server on the box's storage.
func (b Box) Flags() serve.Flags {
	return serve.Flags{
		ID: server, Shard: Shard, Storage: "file", Bucket: b.bucket(), CacheDir: filepath.Join(b.Dir, "cache"),
	}
}

// Prepare locks the box against other processes and makes what is missing in it:
// a configuration among other things, with one group of machines. The options
// count only while the box is new; their paths and architecture are those of the
// box. The caller unlocks it when done.
func (b Box) Prepare(ctx context.Context, opts ConfigOptions) (unlock func() error, err error) {
	for _, dir := range []string{b.Dir, b.bucket(), b.Machines()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	unlock, err = cache.LockDir(b.Dir)
	if errors.Is(err, cache.ErrLocked) {
		return nil, fmt.Errorf("%s is %w: stop that one first, or use another directory", b.Dir, cache.ErrLocked)
	}
	if err != nil {
		return nil, err
	}
	if err := b.fill(ctx, opts); err != nil {
		return nil, errors.Join(err, unlock())
	}
	return unlock, nil
}

func (b Box) fill(ctx context.Context, opts ConfigOptions) error {
	if err := b.makeSealKey(); err != nil {
		return err
	}
	opts.MachinesDir, opts.EncryptionKeyFile, opts.Arch = b.Machines(), b.sealKey(), runtime.GOARCH
	text, err := Config(opts)
	if err != nil {
		return err
	}
	store, err := file.New(b.bucket())
	if err != nil {
		return err
	}
	key := layout.ConfigKey(Shard)
	if _, err := store.Get(ctx, key); err == nil {
		return nil
	}
	_, err = store.PutIfAbsent(ctx, key, text)
	return err
}

func (b Box) makeSealKey() error {
	if _, err := os.Stat(b.sealKey()); err == nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(b.bucket(), "secret")); err == nil {
		return fmt.Errorf("%s is missing, and with it what opens the secrets in %s: put it back, or remove %s and start again", b.sealKey(), b.bucket(), b.Dir)
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	text := fmt.Sprintf("hex:%x\n", key)
	return renameio.WriteFile(b.sealKey(), []byte(text), 0o600)
}

// Hide takes the CLI's context away: the shard is not served any more.
func (b Box) Hide() error {
	if err := os.Remove(b.context()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Publish makes the shard reachable for the CLI: an operator's identity, and the
// context that names it. It returns the context's path.
func (b Box) Publish(ctx context.Context, s *serve.Serving, now time.Time) (string, error) {
	if err := b.identify(ctx, s, now); err != nil {
		return "", fmt.Errorf("operator's identity: %w", err)
	}
	text, err := json.MarshalIndent(map[string]any{
		"cluster_id": Cluster, "tenant": identity.DefaultTenant, "identity_dir": b.identity(), "shard": Shard,
		"servers": map[string]string{Shard: s.Addrs.Operator}, "leader_file": filepath.Join(b.Machines(), "leader.json"),
	}, "", "  ")
	if err != nil {
		return "", err
	}
	return b.context(), renameio.WriteFile(b.context(), append(text, '\n'), 0o600)
}

// identify enrols an operator of the default tenant, unless one is whom this
// cluster takes for another day.
func (b Box) identify(ctx context.Context, s *serve.Serving, now time.Time) error {
	authority := s.Authority()
	if b.identified(authority.CA().Pool(), now.Add(24*time.Hour)) {
		return nil
	}
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		return err
	}
	keyPEM, err := pki.EncodePrivateKeys(key)
	if err != nil {
		return err
	}
	store, err := file.New(b.bucket())
	if err != nil {
		return err
	}
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return fmt.Errorf("the new key is not of Ed25519 but of %T", key.Public())
	}
	_, cert, err := operatorauth.Enrol(ctx, store, authority, operatorauth.EnrolRequest{Tenant: identity.DefaultTenant, Key: public})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.identity(), 0o700); err != nil {
		return err
	}
	return errors.Join(
		renameio.WriteFile(filepath.Join(b.identity(), "ca.crt"), authority.CA().Bundle(), 0o600),
		renameio.WriteFile(filepath.Join(b.identity(), "identity.key"), keyPEM, 0o600),
		renameio.WriteFile(filepath.Join(b.identity(), "identity.crt"), cert.PEM, 0o600),
	)
}

// identified reports whether the directory holds a key and its certificate, signed
// by one of roots and in time at the given moment: the bucket may have been made
// anew since, and a CA with it.
func (b Box) identified(roots *x509.CertPool, at time.Time) bool {
	pair, err := tls.LoadX509KeyPair(filepath.Join(b.identity(), "identity.crt"), filepath.Join(b.identity(), "identity.key"))
	if err != nil {
		return false
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}
