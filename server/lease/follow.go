package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// campaign watches the lock until this server has taken it, ctx ends, or
// another server with its id shows.
func (e *Elector) campaign(ctx context.Context) (version, error) {
	for ctx.Err() == nil {
		won, err := e.round(ctx)
		if err == nil || errors.Is(err, ErrDuplicateID) {
			return won, err
		}
		pause(ctx, e.opts.Poll)
	}
	return version{}, ctx.Err()
}

// errWait says that the lock can't be taken yet.
var errWait = errors.New("the lock is held")

// round looks at the lock once and takes it if it may be taken.
func (e *Elector) round(ctx context.Context) (version, error) {
	if err := e.observe(ctx); err != nil {
		return version{}, err
	}
	why, ok := e.mayTake(ctx)
	if !ok {
		return version{}, errWait
	}
	won, err := e.take(ctx)
	switch {
	case err == nil:
		e.opts.Log.InfoContext(ctx, "lock taken", "term", won.doc.Term, "reason", why)
	case !errors.Is(err, errLost) && !errors.Is(err, ErrDuplicateID) && ctx.Err() == nil:
		e.setProblem(err)
		e.opts.Log.WarnContext(ctx, "lock not taken", "reason", why, "error", err)
	}
	return won, err
}

// observe looks at the lock and times how long it has been as it is. The time
// begins when the answer is here, so it is never longer than true.
func (e *Elector) observe(ctx context.Context) error {
	callCtx, cancel := context.WithTimeout(ctx, margin(e.opts.Lease))
	defer cancel()
	now, err := e.source.look(callCtx)
	if err != nil {
		if ctx.Err() == nil && e.Status().Problem == nil {
			e.opts.Log.WarnContext(ctx, "lock can't be read", "error", err)
		}
		e.setProblem(err)
		return err
	}
	if !e.first && now.etag == e.seen.etag && bytes.Equal(now.data, e.seen.data) {
		e.setProblem(now.broken)
		return nil
	}
	if !e.first && e.duplicate(now) {
		return fmt.Errorf("%w: %q, term %d", ErrDuplicateID, now.doc.LeaderID, now.doc.Term)
	}
	e.see(ctx, now)
	return nil
}

// see takes note of a version that was not seen before.
func (e *Elector) see(ctx context.Context, now observation) {
	e.first, e.fresh = false, false
	e.seen, e.since = now, e.opts.Elapsed()
	if now.broken != nil {
		e.opts.Log.ErrorContext(ctx, "lock document is quarantined, nobody can take the lock", "error", now.broken)
	}
	if now.absent() || now.broken != nil {
		e.publish(nil, now.broken)
		return
	}
	e.publish(&now.doc, nil)
}

// mayTake gathers what the decision needs beside the lock itself.
func (e *Elector) mayTake(ctx context.Context) (string, bool) {
	s := standing{unchanged: e.opts.Elapsed() - e.since, lease: e.opts.Lease}
	switch {
	case e.seen.absent():
		s.fresh = e.isFresh(ctx)
	case e.seen.broken == nil && e.seen.doc.LeaderID == e.opts.ID:
		_, s.ours = e.tried(e.seen.data)
		if e.opts.Reclaim != nil {
			term, ok := e.opts.Reclaim()
			s.reclaimed = ok && term == e.seen.doc.Term
		}
	}
	return mayTake(e.seen, s)
}

// isFresh asks FreshShard, and believes a yes only while the lock stays absent.
func (e *Elector) isFresh(ctx context.Context) bool {
	if e.fresh || e.opts.FreshShard == nil {
		return e.fresh
	}
	ctx, cancel := context.WithTimeout(ctx, margin(e.opts.Lease))
	defer cancel()
	fresh, err := e.opts.FreshShard(ctx)
	if err != nil {
		e.opts.Log.WarnContext(ctx, "can't tell whether the shard is fresh", "error", err)
		return false
	}
	e.fresh = fresh
	return fresh
}

// take tries to write the seen lock with the next term.
func (e *Elector) take(ctx context.Context) (version, error) {
	highest := max(e.seen.doc.Term, e.Status().Term)
	for _, a := range e.attempts {
		highest = max(highest, a.doc.Term) // it may have been, or may still be written
	}
	if e.opts.MinTerm != nil {
		callCtx, cancel := context.WithTimeout(ctx, margin(e.opts.Lease))
		defer cancel()
		documents, err := e.opts.MinTerm(callCtx)
		if err != nil {
			return version{}, fmt.Errorf("find the highest term: %w", err)
		}
		highest = max(highest, documents)
	}
	return e.write(ctx, e.document(highest+1, false), e.seen.etag)
}
