// Package keys holds the keys that certificates of this machine's services are issued
// for. They are made here and never leave: the server asks for them by name and gets the
// public halves.
//
// A key is made once, as ECDSA on P-256, and kept for as long as its file is there, so
// asking again is harmless. Beside {name}.key, PKCS#8, stands {name}.pub for whoever needs
// the public half on the machine.
package keys

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"nstance.dev/agent/durable"
)

// ErrName is matched by the error about a name that no key can have.
var ErrName = errors.New("invalid key name")

// A name is followed by ".key" in a file name of at most 128 bytes.
var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,123}$`)

// Store is a directory of keys. Use it from one goroutine at a time.
type Store struct {
	dir  string
	mode fs.FileMode
}

// Open makes the directory where it is missing. Files get mode, the directory dirMode.
func Open(dir string, mode, dirMode fs.FileMode) (*Store, error) {
	if err := durable.MakeDir(dir, dirMode); err != nil {
		return nil, fmt.Errorf("open keys directory: %w", err)
	}
	return &Store{dir: dir, mode: mode}, nil
}

// ValidName reports whether a key can have this name: lower case letters, digits, ".",
// "_" and "-", the first one a letter or digit.
func ValidName(name string) bool { return namePattern.MatchString(name) }

// Public returns the public half, PEM in PKIX form, of the key with this name, which it
// makes where there is none. The error matches [ErrName] for a name that cannot be one. A
// file that holds no usable key is an error and is never replaced: something may depend on it.
func (s *Store) Public(name string) ([]byte, error) {
	if !ValidName(name) {
		return nil, fmt.Errorf("%w: %.140q", ErrName, name)
	}
	key, err := s.private(filepath.Join(s.dir, name+".key"))
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", name, err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("key %s: encode public half: %w", name, err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if err := s.publish(filepath.Join(s.dir, name+".pub"), public); err != nil {
		return nil, fmt.Errorf("key %s: %w", name, err)
	}
	return public, nil
}

func (s *Store) private(path string) (crypto.Signer, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s.generate(path)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("%s holds no private key in PEM form; remove it to get a new one", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s is not in PKCS#8 form; remove it to get a new one", path)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s is a %T, with which nothing can be signed", path, parsed)
	}
	return key, nil
}

func (s *Store) generate(path string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	data := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := durable.WriteFile(path, data, s.mode); err != nil {
		return nil, err
	}
	return key, nil
}

// publish writes the public half unless it is there.
func (s *Store) publish(path string, public []byte) error {
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, public) {
		return nil
	}
	return durable.WriteFile(path, public, s.mode)
}
