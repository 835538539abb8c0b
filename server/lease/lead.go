package lease

import (
	"context"
	"errors"
	"math"
	"time"
)

// lead holds the lock from a version that this process wrote until it is lost
// or ctx ends, and returns after all callbacks did.
func (e *Elector) lead(ctx context.Context, v version) error {
	leading, t := newTenure(ctx, v.doc.Term, e.opts.Elapsed, e.deadline(v))
	if err := t.check(); err != nil {
		// The answer came when the lease was almost over. The next campaign
		// sees a document of ours and takes it over at once.
		t.end(err)
		return err
	}
	t.over = make(chan struct{})
	defer close(t.over)
	e.publish(&v.doc, nil)
	e.setTenure(t)
	stopped := e.act(leading, t)

	v, reason := e.renew(leading, t, v, forever)
	if ctx.Err() != nil && !errors.Is(reason, ErrDuplicateID) {
		reason = errStopped
	}
	t.end(reason)
	e.setTenure(nil)
	e.opts.Log.InfoContext(ctx, "leadership ended", "term", v.doc.Term, "reason", reason)
	e.stop(ctx, v, reason, stopped)
	e.forget(v)
	return reason
}

// forever is when a leader stops to renew of its own accord.
const forever = time.Duration(math.MaxInt64)

// forget resets what was seen to the leader's own last version: whatever else the next
// campaign sees is new to it.
func (e *Elector) forget(v version) {
	e.sight.seen, e.sight.since = observation{etag: v.etag, doc: v.doc}, e.opts.Elapsed()
}

// deadline is when a leader with this version must stop to act.
func (e *Elector) deadline(v version) time.Duration {
	return v.start + e.opts.Lease - Margin(e.opts.Lease)
}

// act runs the callbacks of one tenure. The channel is closed when both have
// returned, so that nothing acts any more.
func (e *Elector) act(leading context.Context, t *tenure) <-chan struct{} {
	acquired := make(chan struct{})
	go func() {
		defer close(acquired)
		if e.opts.OnAcquire != nil {
			e.opts.OnAcquire(leading, t.term)
		}
	}()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-leading.Done()
		if e.opts.OnLose != nil {
			e.opts.OnLose()
		}
		<-acquired
	}()
	return stopped
}

// renew rewrites the lock until the time until has come, the tenure ends or the
// lock is lost. It returns the last version known to be stored, and why it
// ended: nil for the first.
func (e *Elector) renew(leading context.Context, t *tenure, v version, until time.Duration) (version, error) {
	wait := v.start + e.opts.Renew - e.opts.Elapsed()
	for {
		pause(leading, min(wait, until-e.opts.Elapsed()))
		if err := t.check(); err != nil {
			return v, err
		}
		if e.opts.Elapsed() >= until {
			return v, nil
		}
		next, err := e.lock.write(leading, e.lock.document(t.term, false), v.etag, v.claim)
		switch {
		case err == nil:
			v = next
			e.publish(&v.doc, nil)
			if !t.extend(e.deadline(v)) {
				return v, t.check()
			}
			wait = v.start + e.opts.Renew - e.opts.Elapsed()
		case final(err):
			return v, err
		case leading.Err() == nil:
			e.setProblem(err)
			e.opts.Log.WarnContext(leading, "lock not renewed", "term", t.term, "error", err)
			wait = min(e.opts.Renew, time.Second)
		}
	}
}

// stop waits until nothing acts under the tenure any more, and releases the
// lock where it was given up and nothing acted for too long.
func (e *Elector) stop(ctx context.Context, v version, reason error, stopped <-chan struct{}) {
	limit := time.NewTimer(Margin(e.opts.Lease))
	defer limit.Stop()
	select {
	case <-stopped:
		if errors.Is(reason, errStopped) || errors.Is(reason, errResigned) || errors.Is(reason, errOutranked) {
			e.release(context.WithoutCancel(ctx), v)
		}
	case <-limit.C:
		// Not released: whoever takes the lock waits out the lease first.
		e.opts.Log.ErrorContext(ctx, "leadership has ended and work under it still runs: the lock is not released, a standby waits until the lease is over", "term", v.doc.Term)
		<-stopped
	}
}

// release gives the lock up so that a standby need not wait. An error changes
// nothing: the lease runs out.
func (e *Elector) release(ctx context.Context, v version) {
	ctx, cancel := context.WithTimeout(ctx, Margin(e.opts.Lease))
	defer cancel()
	doc := e.lock.document(v.doc.Term, true)
	for {
		written, err := e.lock.write(ctx, doc, v.etag, false)
		switch {
		case err != nil:
			e.opts.Log.WarnContext(ctx, "lock not released", "term", v.doc.Term, "error", err)
			return
		case written.doc.Released:
			e.publish(&written.doc, nil)
			e.opts.Log.InfoContext(ctx, "lock released", "term", v.doc.Term)
			return
		}
		v = written // a renewal whose answer was lost: release that
	}
}
