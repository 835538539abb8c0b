// Package secrets keeps the keys of a cluster and the secrets that its machines
// receive, by name, apart from everything else.
//
// A [Store] holds values; where it holds them is the choice of the cluster's
// configuration. [Sealed] keeps them in object storage, encrypted on this side
// with keys that a [KeySource] provides; [Sealed.Reseal] changes the key.
// [Cached] wraps any store. The stores of the clouds are packages of their own
// below this one, and package backends opens what a configuration names.
//
// What a secret means is left to the caller: this package neither makes nor
// reads key material. It never logs, and no error of it contains a value; a
// [Secret] does not show its content however it is printed.
package secrets

import (
	"context"
	"errors"
	"fmt"
	"regexp"
)

// What a caller acts on.
var (
	ErrNotFound = errors.New("secret not found")
	ErrExists   = errors.New("secret exists")
	// ErrName is about a name that no store takes.
	ErrName = errors.New("invalid secret name")
	// ErrTooLarge is about a value beyond the store's limit.
	ErrTooLarge = errors.New("secret is too large")
	// ErrValue is about a value of a form that the store cannot hold: [Limits]
	// say which.
	ErrValue = errors.New("invalid secret value")
	// ErrUnreadable is about a value that is there and that none of the keys
	// opens: written with another key, stored as another secret, or damaged.
	ErrUnreadable = errors.New("secret cannot be decrypted")
)

// Mode says what Put does when the secret exists.
type Mode int

const (
	// Overwrite replaces an existing value.
	Overwrite Mode = iota
	// CreateOnly leaves an existing value alone and fails with ErrExists.
	CreateOnly
)

// Store keeps secrets by name. Names satisfy [ValidateName]; others are refused
// with ErrName before anything is asked or written.
//
// Methods are safe for concurrent use. What is not one of this package's errors
// is a failure of the storage behind it, whose outcome is unknown; every call
// may be repeated.
type Store interface {
	// Get returns the value, which belongs to the caller, or ErrNotFound.
	Get(ctx context.Context, name string) (Secret, error)

	// Put writes the value. With CreateOnly exactly one of several callers at
	// once succeeds, and the others fail with ErrExists.
	Put(ctx context.Context, name string, value Secret, mode Mode) error

	// Delete ends the secret: nil too if there is none.
	Delete(ctx context.Context, name string) error

	// List returns the names that begin with prefix, sorted. An incomplete
	// listing is an error.
	List(ctx context.Context, prefix string) ([]string, error)
}

// namePattern is what every kind of store can hold in some form, so a cluster
// can move from one to another.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// ValidateName checks the name of a secret: 1 to 128 letters, digits, dots,
// hyphens and underscores, of which the first is a letter or digit. Errors match
// [ErrName].
func ValidateName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%w %.64q: it must be 1 to 128 letters, digits, \".\", \"-\" and \"_\", the first a letter or digit", ErrName, name)
	}
	return nil
}
