package shard

import (
	"context"
	"errors"
	"sync"
	"time"

	"nstance.dev/server/calls"
	"nstance.dev/server/driver"
	"nstance.dev/server/lease"
)

// leadership is the life of a term: it ends with the lease, or with the first sign of a later
// leader.
type leadership struct {
	term  uint64
	since time.Time
	calls calls.Book      // to the provider
	ctx   context.Context //nolint:containedctx // cancelled by end: effects end with it, not with a caller
	end   context.CancelCauseFunc
	tasks tasks
}

// background runs do in a goroutine with the leadership's context, and not at all once the term is
// over.
func (l *leadership) background(do func(context.Context)) { l.tasks.Go(func() { do(l.ctx) }) }

// bound joins a caller's context with the leadership, whose proof it carries.
func (l *leadership) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancel(l.ctx)
	stop := context.AfterFunc(ctx, cancel)
	return bound, func() { stop(); cancel() }
}

// lost reports whether err means that this server no longer leads.
func lost(err error) bool { return errors.Is(err, lease.ErrNotLeader) }

// superseded returns why the term ended itself, nil if the lease just ended.
func superseded(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, lease.ErrSuperseded) {
		return cause
	}
	return nil
}

// endIfOver ends the term if err says that it is over. It reports whether it did.
func (l *leadership) endIfOver(err error) bool {
	if errors.Is(err, lease.ErrSuperseded) {
		l.end(err)
		return true
	}
	return lost(err)
}

// tasks are the goroutines of a term that nobody else waits for: deletions,
// look-ups, writes to be finished. Their zero value has none. It is safe for
// concurrent use: calls of the API may still be under way when a term ends.
type tasks struct {
	mu    sync.Mutex
	ended bool
	under sync.WaitGroup
}

// Go runs do in a goroutine of its own. Once the end is waited for it does not: the
// lease is gone, and what do is about is the next leader's.
func (t *tasks) Go(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.under.Go(do)
	}
}

// Wait waits until all that have begun have ended, and lets no others begin.
func (t *tasks) Wait() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.under.Wait()
}

// noted enters a call to the provider into the metrics and into the account of this leadership.
func (l *leadership) noted(m *Metrics) func(op string, took time.Duration, err error) {
	return func(op string, took time.Duration, err error) {
		m.providerCall(op, took, err)
		how := calls.Failed
		switch {
		case err == nil, driver.IsNotFound(err):
			how = calls.Answered
		case driver.ClassOf(err) == driver.Throttled:
			how = calls.Throttled
		}
		l.calls.Note(op, took, how)
	}
}
