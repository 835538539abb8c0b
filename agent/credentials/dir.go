package credentials

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nstance.dev/agent/durable"
	"nstance.dev/protos/identity"
)

// Names of the files in the directory.
const (
	CAFile          = "ca.crt"
	NonceFile       = "nonce.jwt"
	KeyFile         = "identity.key"
	CertificateFile = "identity.crt"
	HashFile        = "config.hash"
)

// ErrNoIdentity means that there is no certificate, or none that fits the key and the
// instance. The agent has to register.
var ErrNoIdentity = errors.New("no identity")

// maxFile bounds what is read into memory; real files are far smaller.
const maxFile = 1 << 20

// Dir is the directory. Make one with [Open].
type Dir struct {
	path string
	mode fs.FileMode
	id   identity.ID
}

// Open makes the directory where it is missing. Files that are written get mode, the
// directory dirMode; id is the instance that a certificate must name.
func Open(path string, mode, dirMode fs.FileMode, id identity.ID) (*Dir, error) {
	if err := durable.MakeDir(path, dirMode); err != nil {
		return nil, fmt.Errorf("open identity directory: %w", err)
	}
	return &Dir{path: path, mode: mode, id: id}, nil
}

func (d *Dir) file(name string) string { return filepath.Join(d.path, name) }

func (d *Dir) read(name string) ([]byte, error) {
	info, err := os.Stat(d.file(name))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", d.file(name), maxFile)
	}
	return os.ReadFile(d.file(name))
}

// Roots returns the authorities that servers are verified against: every certificate in
// ca.crt. There may be several while the cluster changes its authority.
func (d *Dir) Roots() (*x509.CertPool, error) {
	data, err := d.read(CAFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate authority: %w", err)
	}
	pool, n := x509.NewCertPool(), 0
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != pemCertificate {
			return nil, fmt.Errorf("certificate authority %s: block %d is a %q, not a certificate", d.file(CAFile), n+1, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate authority %s: block %d: %w", d.file(CAFile), n+1, err)
		}
		pool.AddCert(cert)
		n++
	}
	if n == 0 {
		return nil, fmt.Errorf("certificate authority %s: no certificate in PEM form", d.file(CAFile))
	}
	return pool, nil
}

// Nonce returns the token that this machine came with, and its claims, which say for
// which shard it is and are not verified. The error matches [fs.ErrNotExist] if there is
// none (any more), and [identity.ErrNonceForm] if it is malformed or for somebody else.
func (d *Dir) Nonce() (token string, claims identity.NonceClaims, err error) {
	data, err := d.read(NonceFile)
	if err != nil {
		return "", claims, fmt.Errorf("read nonce: %w", err)
	}
	token = strings.TrimSpace(string(data))
	claims, err = identity.DecodeNonceUnverified(token)
	if err != nil {
		return "", identity.NonceClaims{}, fmt.Errorf("nonce %s: %w", d.file(NonceFile), err)
	}
	if claims.Kind != identity.NonceAgent || claims.Subject != d.id.String() {
		return "", identity.NonceClaims{}, fmt.Errorf("nonce %s: %w: it is for %s %q, this is agent %q",
			d.file(NonceFile), identity.ErrNonceForm, claims.Kind, claims.Subject, d.id)
	}
	return token, claims, nil
}

// DiscardNonce deletes the nonce, which is of no use once there is a certificate.
func (d *Dir) DiscardNonce() error { return durable.Remove(d.file(NonceFile)) }

// Key returns the agent's own key, which it makes where there is none.
func (d *Dir) Key() (ed25519.PrivateKey, error) {
	data, err := d.read(KeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return d.makeKey()
	}
	if err != nil {
		return nil, fmt.Errorf("read identity key: %w", err)
	}
	block, rest := pem.Decode(data)
	if block == nil || block.Type != pemPrivateKey || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, fmt.Errorf("identity key %s is not one private key in PEM form", d.file(KeyFile))
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("identity key %s: it is not in PKCS#8 form", d.file(KeyFile))
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("identity key %s is a %T, not an Ed25519 key", d.file(KeyFile), parsed)
	}
	return key, nil
}

func (d *Dir) makeKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make identity key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make identity key: %w", err)
	}
	data := pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: der})
	if err := durable.WriteFile(d.file(KeyFile), data, d.mode); err != nil {
		return nil, fmt.Errorf("make identity key: %w", err)
	}
	return key, nil
}

// Identity returns who the agent is. The error matches [ErrNoIdentity] if it has yet to
// register; a certificate that has ended is an identity.
func (d *Dir) Identity() (Identity, error) {
	data, err := d.read(CertificateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{}, ErrNoIdentity
	}
	if err != nil {
		return Identity{}, fmt.Errorf("read identity: %w", err)
	}
	key, err := d.Key()
	if err != nil {
		return Identity{}, err
	}
	id, err := newIdentity(data, key, d.id)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %s: %w", ErrNoIdentity, d.file(CertificateFile), err)
	}
	return id, nil
}

// ForgetOther deletes key and certificate if the certificate is that of another instance:
// this machine's disk was made from an image of that one, whose key must stay its own. It
// is for a machine that is about to register.
func (d *Dir) ForgetOther() error {
	data, err := d.read(CertificateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read identity: %w", err)
	}
	if other := owner(data); other == "" || other == d.id {
		return nil
	}
	if err := durable.Remove(d.file(KeyFile)); err != nil {
		return err
	}
	return durable.Remove(d.file(CertificateFile))
}

// StoreCertificate checks a certificate that the server has issued for the agent's key,
// and writes it. When it returns, the certificate survives a crash.
func (d *Dir) StoreCertificate(certificatePEM []byte) (Identity, error) {
	key, err := d.Key()
	if err != nil {
		return Identity{}, err
	}
	id, err := newIdentity(certificatePEM, key, d.id)
	if err != nil {
		return Identity{}, fmt.Errorf("issued certificate: %w", err)
	}
	if err := durable.WriteFile(d.file(CertificateFile), certificatePEM, d.mode); err != nil {
		return Identity{}, fmt.Errorf("store certificate: %w", err)
	}
	return id, nil
}

// ConfigHash returns the hash of the configuration that was applied last, "" if none was.
func (d *Dir) ConfigHash() (string, error) {
	data, err := d.read(HashFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read configuration hash: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// StoreConfigHash writes the hash. When it returns, the hash survives a crash.
func (d *Dir) StoreConfigHash(hash string) error {
	if err := durable.WriteFile(d.file(HashFile), []byte(hash+"\n"), d.mode); err != nil {
		return fmt.Errorf("store configuration hash: %w", err)
	}
	return nil
}
