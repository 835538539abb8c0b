// Package secrets is what the operator keeps in Kubernetes Secrets: keys, certificates and
// credentials, each in a Secret of its own.
//
// A [Store] reads and writes them one at a time, with the conditions that make two
// processes safe beside each other: create if absent, and update of the version that was
// read. Package secretstest has one in memory with faults, and the contract that every
// Store keeps.
//
// What is in a Secret is up to its owner. Nothing here logs any of it, and a [Secret]
// prints as its name alone (S14).
package secrets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
)

// What a [Store] answers with.
var (
	ErrNotFound = errors.New("secret not found")
	ErrExists   = errors.New("secret exists already")
	ErrConflict = errors.New("secret has changed since it was read")
)

// Secret is a Kubernetes Secret.
type Secret struct {
	Name        string
	Type        string // such as kubernetes.io/tls; empty: Opaque. It never changes
	Labels      map[string]string
	Annotations map[string]string
	Owners      []Owner
	Data        map[string][]byte
	Version     string // its resourceVersion; empty: not stored yet
}

// Owner is an object that a Secret goes with.
type Owner struct{ APIVersion, Kind, Name, UID string }

// String returns the name.
func (s Secret) String() string { return "secret " + s.Name }

// GoString keeps the data out of %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue keeps the data out of logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Clone returns a copy that shares nothing.
func (s Secret) Clone() Secret {
	s.Labels, s.Annotations = maps.Clone(s.Labels), maps.Clone(s.Annotations)
	s.Owners = slices.Clone(s.Owners)
	data := make(map[string][]byte, len(s.Data))
	for name, value := range s.Data {
		data[name] = slices.Clone(value)
	}
	s.Data = data
	return s
}

// Store keeps Secrets of one namespace. Reads see every write that was acknowledged before,
// so they do not come from a cache. Errors match those above, or may pass. Safe for
// concurrent use.
type Store interface {
	// Get returns a Secret, or ErrNotFound.
	Get(ctx context.Context, name string) (Secret, error)
	// Create stores a new Secret and returns it with its version, or ErrExists.
	Create(ctx context.Context, s Secret) (Secret, error)
	// Update replaces the version that s has, labels, annotations and owners of others
	// included, and returns the new one, or ErrConflict or ErrNotFound.
	Update(ctx context.Context, s Secret) (Secret, error)
}

// attempts is how often Write tries against others that write the same Secret.
const attempts = 5

// Write creates or replaces a Secret. change gets what is there, or a Secret that has the
// name alone, and returns what is to be there; it may be called several times.
func Write(ctx context.Context, store Store, name string, change func(Secret) (Secret, error)) (Secret, error) {
	var err error
	for range attempts {
		var current Secret
		current, err = store.Get(ctx, name)
		missing := errors.Is(err, ErrNotFound)
		if missing {
			current = Secret{Name: name}
		} else if err != nil {
			return Secret{}, err
		}
		next, failed := change(current.Clone())
		if failed != nil {
			return Secret{}, failed
		}
		next.Name, next.Version = name, current.Version
		if missing {
			next, err = store.Create(ctx, next)
		} else {
			next, err = store.Update(ctx, next)
		}
		if !errors.Is(err, ErrExists) && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrNotFound) {
			return next, err
		}
	}
	return Secret{}, fmt.Errorf("%d attempts: %w", attempts, err)
}
