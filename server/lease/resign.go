package lease

import (
	"context"
	"fmt"
	"time"
)

// errResigned is the end of a tenure because the server gave it up.
var errResigned = fmt.Errorf("%w: the server resigned", ErrNotLeader)

// Resign gives the leadership up: acting stops, the lock is released, and this
// server takes no part in elections for stayOut, even if nobody else leads. It
// returns when the lock is released, or can't be and runs out. When ctx ends
// first the resignation goes on. Where this server does not lead the error
// matches ErrNotLeader and nothing changes.
//
// The work that OnAcquire does must not wait for Resign, which waits for it.
func (e *Elector) Resign(ctx context.Context, stayOut time.Duration) error {
	e.mu.Lock()
	if !e.leading() {
		e.mu.Unlock()
		return fmt.Errorf("resign from %s: %w", e.key, ErrNotLeader)
	}
	t := e.tenure
	e.outUntil = e.opts.Elapsed() + stayOut
	t.end(errResigned)
	e.mu.Unlock()
	select {
	case <-t.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("resign from %s: %w", e.key, ctx.Err())
	}
}

// errOutranked is the end of a tenure because documents of a later term were found.
var errOutranked = fmt.Errorf("%w: a later term has written", ErrNotLeader)

// Outranked tells the elector that a document carries this term: it never leads
// under that one or a lower one from then on. If it does so now, acting stops
// and the lock is released, for this server or another to take with a higher
// term. It does not wait for that, so the work that OnAcquire does may call it.
func (e *Elector) Outranked(term uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status.Term = max(e.status.Term, term)
	if e.leading() && e.tenure.term < term {
		e.tenure.end(errOutranked)
	}
}

// out reports whether this server stays out of elections.
func (e *Elector) out() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opts.Elapsed() < e.outUntil
}
