package lease

import (
	"context"
	"errors"
	"fmt"

	"nstance.dev/server/objectstore"
)

// Elector campaigns for one lock. Its methods are safe for concurrent use; Run
// is called once.
type Elector struct {
	opts Options
	*state

	// These belong to the goroutine of Run.
	lock  *lock
	sight sight
}

// New returns an elector for the lock with this key. It starts nothing.
func New(store objectstore.Store, key string, opts Options) (*Elector, error) {
	if err := objectstore.ValidateKey(key); err != nil {
		return nil, fmt.Errorf("elector: %w", err)
	}
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("elector for %s: %w", key, err)
	}
	opts = opts.withDefaults()
	opts.Log = opts.Log.With("lock", key)
	s := newState(key, opts)
	return &Elector{
		opts: opts, state: s,
		lock:  &lock{store: store, key: key, opts: opts, state: s},
		sight: sight{id: opts.ID, poll: opts.Poll, recheck: opts.Recheck},
	}, nil
}

// Run campaigns for the lock, and leads when it has it, until ctx ends; then it
// stops to act, releases the lock and returns nil. The only other end is an
// error that matches ErrDuplicateID. It returns after OnAcquire and OnLose did.
func (e *Elector) Run(ctx context.Context) error {
	for {
		won, err := e.campaign(ctx)
		if err == nil && won.claim {
			won, err = e.promote(ctx, won)
		}
		if err == nil {
			err = e.lead(ctx, won)
		}
		switch {
		case errors.Is(err, ErrDuplicateID):
			return fmt.Errorf("lock %s: %w", e.key, err)
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end of ctx is the end in order
		}
	}
}
