package secrets

import (
	"context"
	"errors"
	"fmt"

	"nstance.dev/server/objectstore"
)

// Reseal has the first key encrypt a secret that another key, or no name, was
// bound to, and reads it back to prove that the first key alone opens it. It
// reports whether there was anything to do.
//
// It may be repeated and interrupted, and may run beside writers: the value is
// replaced only if nobody has written meanwhile. A secret that is absent, or
// goes, is ErrNotFound; one that no key opens is ErrUnreadable and stays as it
// is. Without keys there is nothing to seal with, which matches [ErrKey].
func (s *Sealed) Reseal(ctx context.Context, name string) (changed bool, err error) {
	if err := ValidateName(name); err != nil {
		return false, err
	}
	if s.Plaintext() {
		return false, fmt.Errorf("reseal secret %s: %w: there is none", name, ErrKey)
	}
	for range overwriteAttempts {
		changed, err = s.reseal(ctx, name)
		if !errors.Is(err, objectstore.ErrPrecondition) {
			break
		}
	}
	if err != nil {
		return false, fmt.Errorf("reseal secret %s: %w", name, err)
	}
	return changed, nil
}

func (s *Sealed) reseal(ctx context.Context, name string) (bool, error) {
	object, err := s.object(ctx, name)
	if err != nil {
		return false, err
	}
	if s.box.current(name, object.Data) {
		return false, nil
	}
	value, err := s.box.open(name, object.Data)
	if err != nil {
		return false, err
	}
	data, err := s.box.seal(name, value)
	if err != nil {
		return false, err
	}
	if _, err := objectstore.Put(ctx, s.objects, object.Key, data, object.ETag, objectstore.RetryPolicy{}); err != nil {
		return false, err
	}
	stored, err := s.object(ctx, name)
	if err != nil {
		return false, fmt.Errorf("read it back: %w", err)
	}
	if !s.box.current(name, stored.Data) {
		return false, fmt.Errorf("read it back: %w: the first key does not open it; does another server write with another key?", ErrUnreadable)
	}
	return true, nil
}

func (s *Sealed) object(ctx context.Context, name string) (objectstore.Object, error) {
	object, err := s.objects.Get(ctx, s.prefix+name)
	if errors.Is(err, objectstore.ErrNotFound) {
		return object, ErrNotFound
	}
	return object, err
}

// NeedsReseal reports whether [Sealed.Reseal] would seal a secret again: it can be opened, and not
// with the first key.
func (s *Sealed) NeedsReseal(ctx context.Context, name string) (bool, error) {
	if err := ValidateName(name); err != nil {
		return false, err
	}
	if s.Plaintext() {
		return false, fmt.Errorf("reseal secret %s: %w: there is none", name, ErrKey)
	}
	object, err := s.object(ctx, name)
	if err != nil {
		return false, fmt.Errorf("reseal secret %s: %w", name, err)
	}
	if s.box.current(name, object.Data) {
		return false, nil
	}
	if _, err := s.box.open(name, object.Data); err != nil {
		return false, fmt.Errorf("reseal secret %s: %w", name, err)
	}
	return true, nil
}
