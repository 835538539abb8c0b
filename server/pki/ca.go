package pki

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"time"

	"nstance.dev/server/objectstore"
	"nstance.dev/server/secrets"
)

// Where the material of a cluster lies.
const (
	CAKeySecret    = "ca.key"                 // a secret: private keys, newest first
	NonceKeySecret = "registration-nonce.key" // a secret: private keys, newest first
	CACertKey      = "ca.crt"                 // an object: certificates, newest first
)

// DefaultCATTL is how long a new authority is valid: ten years.
const DefaultCATTL = 87600 * time.Hour

// What a start can find. Waiting helps against ErrNotInitialized alone; the
// others need a person.
var (
	// ErrNotInitialized: the material is not there yet, and this server may not
	// make it.
	ErrNotInitialized = errors.New("cluster is not initialized")
	// ErrCAKeyMissing: there is a certificate of the authority without its key.
	// Making another authority would lock out every machine of the cluster.
	ErrCAKeyMissing = errors.New("the key of the authority is missing")
	// ErrCAMismatch: key and certificate of the authority do not belong together.
	ErrCAMismatch = errors.New("key and certificate of the authority do not match")
	// ErrCAUnreadable: key or certificate is there and is not what it should be.
	ErrCAUnreadable = errors.New("the material of the authority is unreadable")
)

// CATemplate describes the certificate of a new authority.
type CATemplate struct {
	Subject pkix.Name     // an empty common name means "{cluster} CA"
	TTL     time.Duration // 0 means DefaultCATTL
}

// Options are the settings of [EnsureCA] and [EnsureNonceKeys].
type Options struct {
	// Create allows to make what is absent. Only the leader of the cluster does.
	Create bool
	Now    func() time.Time // nil means time.Now
	Rand   io.Reader        // nil means crypto/rand.Reader
}

// CA is the authority of one cluster.
type CA struct {
	key  ed25519.PrivateKey
	cert *x509.Certificate // of key
	all  []*x509.Certificate
	pem  string // of all of them: each machine's templates have it
}

// Certificate returns the certificate that signs.
func (ca *CA) Certificate() *x509.Certificate { return ca.cert }

// Bundle returns every certificate of the authority as PEM, newest first: what
// a client has to trust. It is several while the authority is being replaced.
func (ca *CA) Bundle() []byte { return []byte(ca.pem) }

// Pool returns the certificates of the authority as a new pool.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, cert := range ca.all {
		pool.AddCert(cert)
	}
	return pool
}

// ensureAttempts bounds how often a server starts over because another one
// wrote the material meanwhile. One would be enough for two servers.
const ensureAttempts = 4

// EnsureCA returns the authority of the cluster. With opts.Create it makes what
// is absent: first the key, kept in store, then the certificate, an object that
// all servers can read. Of several servers at once one makes each, and all
// return the same authority. A key without a certificate gets one; a certificate
// without its key is never overwritten.
//
// Errors match [ErrNotInitialized], [ErrCAKeyMissing], [ErrCAMismatch] or
// [ErrCAUnreadable], or are those of the stores.
func EnsureCA(ctx context.Context, store secrets.Store, objects objectstore.Store, cluster string, template CATemplate, opts Options) (*CA, error) {
	for range ensureAttempts {
		ca, err := ensureCA(ctx, store, objects, cluster, template, opts)
		if !errors.Is(err, errLostRace) {
			return ca, err
		}
	}
	return nil, fmt.Errorf("authority of cluster %s: %w", cluster, errLostRace)
}

// errLostRace says that another server wrote first, so what it wrote counts.
var errLostRace = errors.New("another server keeps writing it")

func ensureCA(ctx context.Context, store secrets.Store, objects objectstore.Store, cluster string, template CATemplate, opts Options) (*CA, error) {
	// The certificate is read first. Its writer had stored the key before, so a
	// certificate whose key is absent after this is no race but a loss.
	certs, err := readCACerts(ctx, objects)
	if err != nil {
		return nil, err
	}
	keys, err := readKeys(ctx, store, CAKeySecret)
	switch {
	case err != nil:
		return nil, err
	case certs != nil && keys == nil:
		return nil, fmt.Errorf("%w: %s exists and secret %s does not; restore the secret", ErrCAKeyMissing, CACertKey, CAKeySecret)
	case certs != nil:
		return matchCA(keys, certs)
	case !opts.Create:
		return nil, fmt.Errorf("%w: %s does not exist yet", ErrNotInitialized, CACertKey)
	}
	if keys == nil {
		if keys, err = createKey(ctx, store, CAKeySecret, opts.Rand); err != nil {
			return nil, err
		}
	}
	cert, err := selfSign(keys[0], cluster, template, opts)
	if err != nil {
		return nil, err
	}
	_, err = objectstore.Put(ctx, objects, CACertKey, EncodeCertificates(cert), "", objectstore.RetryPolicy{})
	if errors.Is(err, objectstore.ErrPrecondition) {
		return nil, errLostRace
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", CACertKey, err)
	}
	return matchCA(keys, []*x509.Certificate{cert})
}

// EnsureNonceKeys returns the keys that sign nonces, newest first: the first
// signs, all verify. With opts.Create it makes the first one if there is none;
// of several servers at once one does. Errors match [ErrNotInitialized] or
// [ErrCAUnreadable], or are those of the store.
func EnsureNonceKeys(ctx context.Context, store secrets.Store, opts Options) ([]ed25519.PrivateKey, error) {
	for range ensureAttempts {
		keys, err := readKeys(ctx, store, NonceKeySecret)
		if err != nil || keys != nil {
			return keys, err
		}
		if !opts.Create {
			return nil, fmt.Errorf("%w: secret %s does not exist yet", ErrNotInitialized, NonceKeySecret)
		}
		keys, err = createKey(ctx, store, NonceKeySecret, opts.Rand)
		if !errors.Is(err, errLostRace) {
			return keys, err
		}
	}
	return nil, fmt.Errorf("secret %s: %w", NonceKeySecret, errLostRace)
}

// readKeys returns nil for a secret that is absent.
func readKeys(ctx context.Context, store secrets.Store, name string) ([]ed25519.PrivateKey, error) {
	value, err := store.Get(ctx, name)
	if errors.Is(err, secrets.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	keys, err := ParsePrivateKeys(value)
	if err != nil {
		return nil, fmt.Errorf("%w: secret %s: %w", ErrCAUnreadable, name, err)
	}
	return keys, nil
}

// readCACerts returns nil if the object is absent.
func readCACerts(ctx context.Context, objects objectstore.Store) ([]*x509.Certificate, error) {
	object, err := objects.Get(ctx, CACertKey)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", CACertKey, err)
	}
	certs, err := ParseCertificates(object.Data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCAUnreadable, CACertKey, err)
	}
	return certs, nil
}

func createKey(ctx context.Context, store secrets.Store, name string, r io.Reader) ([]ed25519.PrivateKey, error) {
	key, err := NewPrivateKey(r)
	if err != nil {
		return nil, err
	}
	value, err := EncodePrivateKeys(key)
	if err != nil {
		return nil, err
	}
	err = store.Put(ctx, name, value, secrets.CreateOnly)
	if errors.Is(err, secrets.ErrExists) {
		return nil, errLostRace
	}
	if err != nil {
		return nil, err
	}
	return []ed25519.PrivateKey{key}, nil
}

// matchCA finds the newest key that has a certificate, and signs with it.
func matchCA(keys []ed25519.PrivateKey, certs []*x509.Certificate) (*CA, error) {
	for _, cert := range certs {
		if !cert.IsCA || !cert.BasicConstraintsValid {
			return nil, fmt.Errorf("%w: %s: the certificate of %q is not one of an authority", ErrCAUnreadable, CACertKey, cert.Subject.CommonName)
		}
	}
	for _, key := range keys {
		for _, cert := range certs {
			if pub, ok := cert.PublicKey.(ed25519.PublicKey); ok && pub.Equal(key.Public()) {
				return &CA{key: key, cert: cert, all: certs, pem: string(EncodeCertificates(certs...))}, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: no certificate in %s is for a key in secret %s", ErrCAMismatch, CACertKey, CAKeySecret)
}

func selfSign(key ed25519.PrivateKey, cluster string, template CATemplate, opts Options) (*x509.Certificate, error) {
	serial, err := newSerial(opts.Rand)
	if err != nil {
		return nil, err
	}
	subject := template.Subject
	if subject.CommonName == "" {
		subject.CommonName = cluster + " CA"
	}
	ttl := template.TTL
	if ttl <= 0 {
		ttl = DefaultCATTL
	}
	now := orNow(opts.Now)()
	pub := key.Public().(ed25519.PublicKey)
	cert := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               subject,
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(ttl),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
		SubjectKeyId:          subjectKeyID(pub),
		AuthorityKeyId:        subjectKeyID(pub),
	}
	return sign(cert, cert, pub, key, opts.Rand)
}

func orRand(r io.Reader) io.Reader {
	if r == nil {
		return rand.Reader
	}
	return r
}

func orNow(now func() time.Time) func() time.Time {
	if now == nil {
		return time.Now
	}
	return now
}
