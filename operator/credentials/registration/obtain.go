package registration

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"nstance.dev/operator/credentials/secrets"
	"nstance.dev/operator/shards"
	"nstance.dev/protos/identity"
)

// What [Obtain] can end with; [Final] says which of it no repetition mends.
var (
	// ErrNoNonce: a registration is needed, and there is no nonce.
	ErrNoNonce = errors.New("no registration nonce")
	// ErrNonceUsed: another key was registered with the nonce.
	ErrNonceUsed = errors.New("the nonce is used already; issue a new one, and find out who used it")
	// ErrRefused: the servers do not admit us with this nonce.
	ErrRefused = errors.New("registration refused")
	// ErrNoShard: no shard has accepted or refused the registration for as long as it was worth
	// waiting.
	ErrNoShard = errors.New("no shard answered the registration")
)

// Names are the names of the Secrets; zero fields take the defaults.
type Names struct {
	Key         string // "nstance-operator-key"
	Certificate string // "nstance-operator-cert"
	Nonce       string // "nstance-operator-nonce"
	NonceEntry  string // of that Secret: "nonce.jwt"
}

// Entries, type and label of the Secrets.
const (
	privateEntry     = "private.key" // PKCS#8, PEM
	publicEntry      = "public.key"  // PKIX, PEM
	certificateEntry = "tls.crt"
	tlsKeyEntry      = "tls.key"
	usedEntry        = "nonce.sha256" // of the nonce that the certificate came with, hexadecimal

	tlsType      = "kubernetes.io/tls"
	managedLabel = "nstance.dev/managed"
)

// Options are the settings of [Obtain] and [Keeper]; zero fields take the defaults.
type Options struct {
	Cluster, Tenant string        // required
	Store           secrets.Store // required
	Names           Names
	// Identity gets the certificate, and has the authorities to trust; required.
	Identity *Identity
	// Shards returns the shards with the addresses of their registration services, in the
	// order in which they are asked; required.
	Shards func() []shards.Target
	// Dial opens connections; nil: TCP.
	Dial shards.DialFunc
	// Patience is how long to go on while no shard answers; 5m.
	Patience time.Duration
	Log      *slog.Logger     // nil: nothing is logged
	Now      func() time.Time // nil: time.Now
	// Random returns numbers in [0, 1) for pauses; nil: rand.Float64. Keys is where keys
	// are drawn from; nil: crypto/rand.
	Random func() float64
	Keys   io.Reader
}

func (o Options) withDefaults() Options {
	for _, f := range []struct {
		name      *string
		otherwise string
	}{
		{&o.Names.Key, "nstance-operator-key"},
		{&o.Names.Certificate, "nstance-operator-cert"},
		{&o.Names.Nonce, "nstance-operator-nonce"},
		{&o.Names.NonceEntry, "nonce.jwt"},
	} {
		if *f.name == "" {
			*f.name = f.otherwise
		}
	}
	if o.Patience <= 0 {
		o.Patience = 5 * time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return o
}

// Obtain gives the identity a certificate: the stored one if it is usable, else a new one
// for the nonce. It may be repeated after any failure. Errors match those above,
// [ErrTenant], [ErrUnusable] for a stored key that cannot be read, the reason of ctx, or
// are of the store and may pass.
func Obtain(ctx context.Context, o Options) error {
	o = o.withDefaults()
	key, err := o.ensureKey(ctx)
	if err != nil {
		return err
	}
	switch found, err := o.stored(ctx); {
	case err == nil:
		o.Identity.set(found)
		return nil
	case errors.Is(err, ErrUnusable), errors.Is(err, secrets.ErrNotFound):
		o.Log.InfoContext(ctx, "registration is needed", "reason", err)
	default:
		return err
	}
	token, err := o.nonce(ctx)
	if err != nil {
		return err
	}
	return o.register(ctx, key, token)
}

// ensureKey returns the key in its Secret, which it makes where there is none. Of two
// processes that do so at once one makes it, and both use that.
func (o Options) ensureKey(ctx context.Context) (ed25519.PrivateKey, error) {
	stored, err := o.Store.Get(ctx, o.Names.Key)
	if errors.Is(err, secrets.ErrNotFound) {
		key, fresh, failed := o.drawKey()
		if failed != nil {
			return nil, failed
		}
		if _, err = o.Store.Create(ctx, fresh); err == nil {
			return key, nil
		}
		if !errors.Is(err, secrets.ErrExists) {
			return nil, err
		}
		stored, err = o.Store.Get(ctx, o.Names.Key)
	}
	if err != nil {
		return nil, err
	}
	key, err := decodeKey(stored.Data[privateEntry])
	if err != nil {
		return nil, fmt.Errorf("secret %s, %s: %w; remove the Secret to register with a new key", o.Names.Key, privateEntry, err)
	}
	return key, nil
}

// drawKey makes a key and the Secret for it.
func (o Options) drawKey() (ed25519.PrivateKey, secrets.Secret, error) {
	key, err := newKey(o.Keys)
	if err != nil {
		return nil, secrets.Secret{}, err
	}
	private, public, err := encodeKey(key)
	return key, secrets.Secret{
		Name: o.Names.Key, Labels: map[string]string{managedLabel: "true"},
		Data: map[string][]byte{privateEntry: private, publicEntry: public},
	}, err
}

// stored returns the certificate in its Secret, with the key beside it there: the Secret
// is whole by itself, so a new key may be prepared while it is in use.
func (o Options) stored(ctx context.Context) (credential, error) {
	stored, err := o.Store.Get(ctx, o.Names.Certificate)
	if err != nil {
		return credential{}, err
	}
	key, err := decodeKey(stored.Data[tlsKeyEntry])
	if err != nil {
		return credential{}, fmt.Errorf("secret %s, %s: %w", o.Names.Certificate, tlsKeyEntry, err)
	}
	found, err := o.owner().check(stored.Data[certificateEntry], key, o.Identity.trusted(), o.Now())
	if err != nil {
		return credential{}, fmt.Errorf("secret %s, %s: %w", o.Names.Certificate, certificateEntry, err)
	}
	return found, nil
}

func (o Options) owner() owner { return owner{o.Cluster, o.Tenant} }

// nonce returns the token in its Secret, if it is one for us.
func (o Options) nonce(ctx context.Context) (string, error) {
	stored, err := o.Store.Get(ctx, o.Names.Nonce)
	if errors.Is(err, secrets.ErrNotFound) {
		return "", fmt.Errorf("%w: put the token that nstance-admin issues into %s of secret %s", ErrNoNonce, o.Names.NonceEntry, o.Names.Nonce)
	}
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(stored.Data[o.Names.NonceEntry]))
	claims, err := identity.DecodeNonceUnverified(token)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: secret %s, %s: %w", ErrNoNonce, o.Names.Nonce, o.Names.NonceEntry, err)
	case claims.Kind != identity.NonceOperator:
		return "", fmt.Errorf("%w: secret %s: the nonce is one for an agent", ErrNoNonce, o.Names.Nonce)
	case claims.ClusterID != o.Cluster || claims.Tenant != o.Tenant:
		return "", fmt.Errorf("%w: the nonce is for cluster %q and tenant %q, configured are %q and %q",
			ErrTenant, claims.ClusterID, claims.Tenant, o.Cluster, o.Tenant)
	}
	return token, nil
}

// save stores a certificate with its key, and the digest of the nonce that it came with; an
// empty one leaves the digest as it is.
func (o Options) save(ctx context.Context, c credential, used string) error {
	private, _, err := encodeKey(c.key)
	if err != nil {
		return err
	}
	_, err = secrets.Write(ctx, o.Store, o.Names.Certificate, func(s secrets.Secret) (secrets.Secret, error) {
		if s.Version == "" {
			s.Type, s.Labels = tlsType, map[string]string{managedLabel: "true"}
		}
		s.Data[certificateEntry], s.Data[tlsKeyEntry] = c.pem, private
		if used != "" {
			s.Data[usedEntry] = []byte(used)
		}
		return s, nil
	})
	return err
}

// nonceDigest is what is kept of a nonce to know it again.
func nonceDigest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
