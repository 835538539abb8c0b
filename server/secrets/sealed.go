package secrets

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"nstance.dev/server/objectstore"
)

// DefaultPrefix is where [Sealed] keeps its objects.
const DefaultPrefix = "secret/"

// MaxSealedSize is the size of the largest value that [Sealed] keeps, in bytes.
const MaxSealedSize = 1 << 20

// overwriteAttempts bounds how often a write starts over because another writer
// came between.
const overwriteAttempts = 5

// Sealed is a [Store] in object storage, in which each secret is one object,
// encrypted with AES-256-GCM before it leaves this process.
type Sealed struct {
	objects objectstore.Store
	prefix  string
	box     box
}

var _ Store = (*Sealed)(nil)

// NewSealed returns a store that keeps its objects under prefix, which is
// [DefaultPrefix] if empty. The first key encrypts; each may decrypt, so a new
// key is put in front of the old one, and the old one goes when everything has
// been written again.
//
// Without a key, values are stored in clear: see [Sealed.Plaintext].
func NewSealed(objects objectstore.Store, prefix string, keys []Key) (*Sealed, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if err := objectstore.ValidatePrefix(prefix); err != nil {
		return nil, fmt.Errorf("prefix of secrets: %w", err)
	}
	b, err := newBox(keys)
	if err != nil {
		return nil, err
	}
	return &Sealed{objects: objects, prefix: prefix, box: b}, nil
}

// Plaintext reports that there is no key, so whoever can read the object
// storage can read every secret. Whoever opens such a store should say so aloud.
func (s *Sealed) Plaintext() bool { return len(s.box.ciphers) == 0 }

// Get implements [Store]. With a key, a value in clear is not accepted: its
// error matches [ErrUnreadable].
func (s *Sealed) Get(ctx context.Context, name string) (Secret, error) {
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	object, err := s.object(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("get secret %s: %w", name, err)
	}
	if s.Plaintext() {
		return object.Data, nil
	}
	value, err := s.box.open(name, object.Data)
	if err != nil {
		return nil, fmt.Errorf("get secret %s: %w", name, err)
	}
	return value, nil
}

// Put implements [Store]. It takes values of up to [MaxSealedSize].
func (s *Sealed) Put(ctx context.Context, name string, value Secret, mode Mode) error {
	if err := ValidateName(name); err != nil {
		return err
	}
	if err := (Limits{Size: MaxSealedSize}).Check(name, value); err != nil {
		return err
	}
	// Sealed once, so that every attempt writes the same bytes and a write whose
	// answer was lost is recognised.
	data := []byte(value)
	if !s.Plaintext() {
		var err error
		if data, err = s.box.seal(name, value); err != nil {
			return fmt.Errorf("put secret %s: %w", name, err)
		}
	}
	err := s.put(ctx, s.prefix+name, data, mode)
	if err != nil {
		return fmt.Errorf("put secret %s: %w", name, err)
	}
	return nil
}

func (s *Sealed) put(ctx context.Context, key string, data []byte, mode Mode) error {
	if mode == CreateOnly {
		return s.create(ctx, key, data)
	}
	var err error
	for range overwriteAttempts {
		var etag string
		if etag, err = s.etag(ctx, key); err != nil {
			return err
		}
		_, err = objectstore.Put(ctx, s.objects, key, data, etag, objectstore.RetryPolicy{})
		if !errors.Is(err, objectstore.ErrPrecondition) {
			return err
		}
	}
	return fmt.Errorf("others keep writing it: %w", err)
}

// create does not use objectstore.Put, which would take another's value in
// clear for its own write if both are equal, and two callers would both succeed.
// Encrypted values never are equal; there it recognises a lost answer.
func (s *Sealed) create(ctx context.Context, key string, data []byte) error {
	var err error
	if s.Plaintext() {
		_, err = s.objects.PutIfAbsent(ctx, key, data)
	} else {
		_, err = objectstore.Put(ctx, s.objects, key, data, "", objectstore.RetryPolicy{})
	}
	if errors.Is(err, objectstore.ErrPrecondition) {
		return ErrExists
	}
	return err
}

// etag returns the etag of an object, "" if there is none.
func (s *Sealed) etag(ctx context.Context, key string) (string, error) {
	object, err := s.objects.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return "", nil
	}
	return object.ETag, err
}

// Delete implements [Store].
func (s *Sealed) Delete(ctx context.Context, name string) error {
	if err := ValidateName(name); err != nil {
		return err
	}
	err := s.delete(ctx, s.prefix+name)
	if err != nil {
		return fmt.Errorf("delete secret %s: %w", name, err)
	}
	return nil
}

func (s *Sealed) delete(ctx context.Context, key string) error {
	var err error
	for range overwriteAttempts {
		etag, getErr := s.etag(ctx, key)
		if getErr != nil || etag == "" {
			return getErr
		}
		err = objectstore.Delete(ctx, s.objects, key, etag, objectstore.RetryPolicy{})
		if errors.Is(err, objectstore.ErrNotFound) {
			return nil
		}
		if !errors.Is(err, objectstore.ErrPrecondition) {
			return err
		}
	}
	return fmt.Errorf("others keep writing it: %w", err)
}

// List implements [Store]. Objects that are not secrets by their name are left
// out.
func (s *Sealed) List(ctx context.Context, prefix string) ([]string, error) {
	if prefix != "" {
		if err := ValidateName(prefix); err != nil {
			return nil, err
		}
	}
	var names []string
	for object, err := range objectstore.ListAll(ctx, s.objects, s.prefix+prefix) {
		if err != nil {
			return nil, fmt.Errorf("list secrets: %w", err)
		}
		if name := strings.TrimPrefix(object.Key, s.prefix); ValidateName(name) == nil {
			names = append(names, name)
		}
	}
	return names, nil
}
