package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Check returns nil while ctx proves leadership at this very moment, and an
// error that matches ErrNotLeader otherwise: the lease has run out, it was lost
// or given up, or ctx carries no leadership at all. It reads the clock itself,
// so it holds also right after the process was stopped or the box suspended.
// Call it directly before each effect. A deadline or cancellation of a context
// derived from the leadership context does not matter to it.
func Check(ctx context.Context) error {
	t, ok := ctx.Value(tenureKey{}).(*tenure)
	if !ok {
		return fmt.Errorf("%w: the context carries no leadership", ErrNotLeader)
	}
	return t.check()
}

// errStopped is the end of a tenure because its server stops.
var errStopped = fmt.Errorf("%w: the server stops", ErrNotLeader)

// errResigned is the end of a tenure because the server gave it up.
var errResigned = fmt.Errorf("%w: the server resigned", ErrNotLeader)

// CheckHandOver is [Check] for what a server leaves behind when it gives the leadership
// up by itself: nil as well while it stops or resigns, until the lease runs out by the
// clock. The lock is released only after that work, so nobody else leads yet.
func CheckHandOver(ctx context.Context) error {
	t, ok := ctx.Value(tenureKey{}).(*tenure)
	if !ok {
		return fmt.Errorf("%w: the context carries no leadership", ErrNotLeader)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.checkLocked()
	switch {
	case t.elapsed != nil && t.elapsed() >= t.deadline:
		return err
	case errors.Is(err, errStopped), errors.Is(err, errResigned), errors.Is(err, context.Canceled): // the last: its process stops
		return nil
	}
	return err
}

// Term returns the term under which ctx leads or led; false where it carries no
// leadership. It is no proof: see Check.
func Term(ctx context.Context) (uint64, bool) {
	t, ok := ctx.Value(tenureKey{}).(*tenure)
	if !ok {
		return 0, false
	}
	return t.term, true
}

// Always returns a context that leads under term for as long as ctx lasts: for
// a server without elections, and for tests.
func Always(ctx context.Context, term uint64) context.Context {
	ctx, _ = newTenure(ctx, term, nil, 0)
	return ctx
}

type tenureKey struct{}

// tenure is one period of leadership, from an acquisition to its end. Once
// ended it stays so.
type tenure struct {
	term    uint64
	elapsed func() time.Duration // nil: no lease, only the parent context ends it
	cancel  context.CancelCauseFunc
	cause   func() error  // nil until the end
	over    chan struct{} // an elector's: closed when nothing acts under it and the lock is given back

	mu       sync.Mutex
	deadline time.Duration // by elapsed
	timer    *time.Timer
}

// newTenure begins a tenure that ends at deadline by the clock elapsed, unless
// it is extended, and at the latest with parent.
func newTenure(parent context.Context, term uint64, elapsed func() time.Duration, deadline time.Duration) (context.Context, *tenure) {
	inner, cancel := context.WithCancelCause(parent)
	t := &tenure{
		term: term, elapsed: elapsed, cancel: cancel, deadline: deadline,
		cause: func() error { return context.Cause(inner) },
	}
	if elapsed != nil {
		t.mu.Lock()
		t.timer = time.AfterFunc(deadline-elapsed(), t.expire)
		t.mu.Unlock()
	}
	return leaderContext{Context: inner, tenure: t}, t
}

// check ends the tenure if its time is over, and says whether it goes on.
func (t *tenure) check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.checkLocked()
}

func (t *tenure) checkLocked() error {
	if t.elapsed != nil && t.elapsed() >= t.deadline {
		t.cancel(errExpired)
	}
	switch cause := t.cause(); {
	case cause == nil:
		return nil
	case errors.Is(cause, ErrNotLeader):
		return cause
	default:
		return fmt.Errorf("%w: %w", ErrNotLeader, cause)
	}
}

var errExpired = fmt.Errorf("%w: the lease was not renewed in time", ErrNotLeader)

// extend moves the deadline, never back, and reports whether the tenure goes
// on. A tenure whose time is over can't be revived by an answer that comes late.
func (t *tenure) extend(deadline time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.checkLocked() != nil {
		return false
	}
	t.deadline = max(t.deadline, deadline)
	return true
}

// begun is when the renewal began from which a lease of this length counts.
func (t *tenure) begun(lease time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deadline + Margin(lease) - lease
}

// expire runs at what was the deadline when the timer was set.
func (t *tenure) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.checkLocked() == nil {
		t.timer.Reset(t.deadline - t.elapsed())
	}
}

// end ends the tenure for a reason, which matches ErrNotLeader.
func (t *tenure) end(reason error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel(reason)
	if t.timer != nil {
		t.timer.Stop()
	}
}

// leaderContext is a cancellable context whose Err looks at the clock.
type leaderContext struct {
	context.Context //nolint:containedctx // it is one itself
	tenure          *tenure
}

func (c leaderContext) Err() error {
	_ = c.tenure.check() // cancels the inner context where the time is over
	return c.Context.Err()
}

func (c leaderContext) Value(key any) any {
	if key == (tenureKey{}) {
		return c.tenure
	}
	return c.Context.Value(key)
}
