package objectstore

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Probed is a Store that makes up for what its self-test finds: where the store
// below ignores the etag of a deletion, each deletion reads the object first.
// That keeps a stale etag from deleting what is there, though a write between
// the reading and the deletion is lost. Until SelfTest has succeeded it adds
// nothing. It is safe for concurrent use.
type Probed struct {
	Store
	readFirst atomic.Bool
}

// NewProbed returns s before its test.
func NewProbed(s Store) *Probed { return &Probed{Store: s} }

// SelfTest tests the store below as the function [SelfTest] does, and adapts to
// the report.
func (p *Probed) SelfTest(ctx context.Context, key string) (Report, error) {
	report, err := SelfTest(ctx, p.Store, key)
	if err != nil {
		return Report{}, err
	}
	p.readFirst.Store(report.DeleteUnconditional)
	return report, nil
}

// DeleteIfMatch implements Store.
func (p *Probed) DeleteIfMatch(ctx context.Context, key, etag string) error {
	if etag != "" && p.readFirst.Load() {
		o, err := p.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("read before delete: %w", err)
		}
		if o.ETag != etag {
			return fmt.Errorf("delete %s: %w", key, ErrPrecondition)
		}
	}
	return p.Store.DeleteIfMatch(ctx, key, etag)
}
