// Package secretstest has Secrets in memory for tests, with faults, and the contract that
// every secrets.Store keeps.
package secretstest

import (
	"context"
	"strconv"
	"sync"

	"nstance.dev/operator/credentials/secrets"
)

// Store keeps Secrets in memory. It is safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	stored  map[string]secrets.Secret
	version int
	calls   int
	fault   func(call int, name string) (before, after error)
}

var _ secrets.Store = (*Store)(nil)

// NewStore returns a store with these Secrets.
func NewStore(stored ...secrets.Secret) *Store {
	s := &Store{stored: map[string]secrets.Secret{}}
	for _, secret := range stored {
		s.Put(secret)
	}
	return s
}

// Put stores a Secret as somebody else would, whatever its version.
func (s *Store) Put(secret secrets.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(secret)
}

// Remove removes a Secret as somebody else would.
func (s *Store) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stored, name)
}

// Calls returns how many calls there were.
func (s *Store) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Break makes calls fail. fault gets the number of the call, from 1, and the name of the
// Secret, and returns the error with which the call fails before it has an effect, or the
// one with which it fails although it took effect. Nil mends the store.
func (s *Store) Break(fault func(call int, name string) (before, after error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func (s *Store) put(secret secrets.Secret) secrets.Secret {
	s.version++
	secret = secret.Clone()
	secret.Version = strconv.Itoa(s.version)
	if secret.Type == "" {
		secret.Type = "Opaque"
	}
	s.stored[secret.Name] = secret
	return secret.Clone()
}

// call carries out one call with what is wrong with it.
func (s *Store) call(ctx context.Context, name string, do func() (secrets.Secret, error)) (secrets.Secret, error) {
	if err := ctx.Err(); err != nil {
		return secrets.Secret{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	var before, after error
	if s.fault != nil {
		before, after = s.fault(s.calls, name)
	}
	if before != nil {
		return secrets.Secret{}, before
	}
	out, err := do()
	if after != nil {
		return secrets.Secret{}, after
	}
	return out, err
}

// Get implements [secrets.Store].
func (s *Store) Get(ctx context.Context, name string) (secrets.Secret, error) {
	return s.call(ctx, name, func() (secrets.Secret, error) {
		if out, ok := s.stored[name]; ok {
			return out.Clone(), nil
		}
		return secrets.Secret{}, secrets.ErrNotFound
	})
}

// Create implements [secrets.Store].
func (s *Store) Create(ctx context.Context, secret secrets.Secret) (secrets.Secret, error) {
	return s.call(ctx, secret.Name, func() (secrets.Secret, error) {
		if _, ok := s.stored[secret.Name]; ok {
			return secrets.Secret{}, secrets.ErrExists
		}
		return s.put(secret), nil
	})
}

// Update implements [secrets.Store].
func (s *Store) Update(ctx context.Context, secret secrets.Secret) (secrets.Secret, error) {
	return s.call(ctx, secret.Name, func() (secrets.Secret, error) {
		switch current, ok := s.stored[secret.Name]; {
		case !ok:
			return secrets.Secret{}, secrets.ErrNotFound
		case current.Version != secret.Version:
			return secrets.Secret{}, secrets.ErrConflict
		}
		return s.put(secret), nil
	})
}
