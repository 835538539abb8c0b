package objectstore

import (
	"context"
	"errors"
	"fmt"
)

// ErrConditionsIgnored says that a store accepts writes whose condition does
// not hold. No server may lead on such a store.
var ErrConditionsIgnored = errors.New("the store ignores write conditions")

// Report is what SelfTest found out about a store that may be used.
type Report struct {
	// DeleteUnconditional says that DeleteIfMatch ignores its etag: deletions
	// must read first and stay open to a race. Tell the operator.
	DeleteUnconditional bool
}

// SelfTest finds out whether the store heeds conditions, by trying to break
// them on key, which must belong to nobody else. It needs no clean start and
// leaves nothing behind when it succeeds. Where a write goes through against
// its condition the error matches ErrConditionsIgnored. Several servers may
// test the same key at once only at the price of an error: give each its own.
func SelfTest(ctx context.Context, s Store, key string) (Report, error) {
	report, err := selfTest(ctx, s, key)
	if err != nil {
		return Report{}, fmt.Errorf("self-test of the store with %s: %w", key, err)
	}
	return report, nil
}

func selfTest(ctx context.Context, s Store, key string) (Report, error) {
	if err := removeLeftover(ctx, s, key); err != nil {
		return Report{}, fmt.Errorf("clear: %w", err)
	}
	first, err := Put(ctx, s, key, []byte("first"), "", RetryPolicy{})
	if err != nil {
		return Report{}, fmt.Errorf("create: %w", err)
	}
	_, err = s.PutIfAbsent(ctx, key, []byte("second"))
	if err := refused("create what exists", err); err != nil {
		return Report{}, err
	}
	second, err := Put(ctx, s, key, []byte("third"), first, RetryPolicy{})
	if err != nil {
		return Report{}, fmt.Errorf("replace: %w", err)
	}
	_, err = s.PutIfMatch(ctx, key, []byte("fourth"), first)
	if err := refused("replace with a stale etag", err); err != nil {
		return Report{}, err
	}
	var report Report
	switch err := s.DeleteIfMatch(ctx, key, first); {
	case err == nil:
		report.DeleteUnconditional = true
		return report, nil
	case !errors.Is(err, ErrPrecondition):
		return Report{}, fmt.Errorf("delete with a stale etag: %w", err)
	}
	if err := Delete(ctx, s, key, second, RetryPolicy{}); err != nil {
		return Report{}, fmt.Errorf("delete: %w", err)
	}
	return report, nil
}

// refused turns the success of a write that should be refused into an error.
func refused(what string, err error) error {
	switch {
	case err == nil:
		return fmt.Errorf("%s: %w", what, ErrConditionsIgnored)
	case errors.Is(err, ErrPrecondition):
		return nil
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// removeLeftover removes what an earlier test left when it was cut short.
func removeLeftover(ctx context.Context, s Store, key string) error {
	o, err := s.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := Delete(ctx, s, key, o.ETag, RetryPolicy{}); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}
