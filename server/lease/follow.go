package lease

import (
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
		pause(ctx, e.sight.untilNextLook(e.opts.Elapsed()))
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
	next, why := decide(e.sight.seen, e.standing(ctx))
	if next == moveWait {
		return version{}, errWait
	}
	won, err := e.take(ctx, next == moveClaim)
	switch {
	case err == nil:
		e.opts.Log.InfoContext(ctx, "lock taken", "term", won.doc.Term, "reason", why, "claim", next == moveClaim)
	case !final(err) && ctx.Err() == nil:
		e.setProblem(err)
		e.opts.Log.WarnContext(ctx, "lock not taken", "reason", why, "error", err)
	}
	return won, err
}

// observe looks at the lock and times how long it has been as it is. The time
// begins when the answer is here, so it is never longer than true. The leader is
// asked if it can be; where it does not answer, storage is looked at at once.
func (e *Elector) observe(ctx context.Context) error {
	if limit, ok := e.sight.mayAsk(e.opts.Elapsed()); ok && e.opts.Ask != nil && e.ask(ctx, limit) == nil {
		return nil
	}
	return e.read(ctx)
}

// read observes the lock in storage.
func (e *Elector) read(ctx context.Context) error {
	callCtx, cancel := context.WithTimeout(ctx, Margin(e.opts.Lease))
	defer cancel()
	now, err := e.lock.look(callCtx)
	if err != nil {
		if ctx.Err() == nil && e.Status().Problem == nil {
			e.opts.Log.WarnContext(ctx, "lock can't be read", "error", err)
		}
		e.setProblem(err)
		return err
	}
	e.sight.peer.read = e.opts.Elapsed()
	if e.sight.any && now.same(e.sight.seen) {
		e.sight.seen = now // it may have been heard of before, without its etag
		e.setProblem(now.broken)
		return nil
	}
	if e.sight.any && e.lock.duplicate(now) {
		return fmt.Errorf("%w: %q, term %d", ErrDuplicateID, now.doc.LeaderID, now.doc.Term)
	}
	e.see(ctx, now)
	return nil
}

// see takes note of a version that was not seen before.
func (e *Elector) see(ctx context.Context, now observation) {
	e.sight.note(now, e.opts.Elapsed())
	if now.broken != nil {
		e.opts.Log.ErrorContext(ctx, "lock document is quarantined, no server can take the lock", "error", now.broken)
	}
	if now.absent() || now.broken != nil {
		e.publish(nil, now.broken)
		return
	}
	e.publish(&now.doc, nil)
	if e.opts.OnFollow != nil && !now.doc.Released && now.doc.LeaderID != e.opts.ID {
		e.opts.OnFollow(now.doc)
	}
}

// standing gathers what the decision needs beside the lock itself, and asks nobody for
// what does not matter to it.
func (e *Elector) standing(ctx context.Context) standing {
	seen := e.sight.seen
	s := standing{out: e.out(), unchanged: e.opts.Elapsed() - e.sight.since}
	switch {
	case s.out, seen.heard:
	case seen.absent():
		s.fresh = e.nothingStored(ctx)
	case seen.broken == nil && seen.doc.LeaderID == e.opts.ID:
		own, ok := e.lock.tried(seen.data)
		s.ours = ok && !own.claim
		if e.opts.Reclaim != nil {
			term, ok := e.opts.Reclaim()
			s.reclaimed = ok && term == seen.doc.Term
		}
	}
	return s
}

// nothingStored reports whether nothing was ever stored below the lock.
func (e *Elector) nothingStored(ctx context.Context) bool {
	if e.opts.NothingStored == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, Margin(e.opts.Lease))
	defer cancel()
	nothing, err := e.opts.NothingStored(ctx)
	if err != nil {
		e.opts.Log.WarnContext(ctx, "can't tell whether anything was ever stored below the lock", "error", err)
	}
	return nothing && err == nil
}

// take tries to write the seen lock with the next term.
func (e *Elector) take(ctx context.Context, claim bool) (version, error) {
	term, err := e.nextTerm(ctx)
	if err != nil {
		return version{}, err
	}
	return e.lock.write(ctx, e.lock.document(term, false), e.sight.seen.etag, claim)
}

// nextTerm returns a term above every one that this server knows of.
func (e *Elector) nextTerm(ctx context.Context) (uint64, error) {
	highest := max(e.sight.seen.doc.Term, e.highestTerm(), e.lock.highestTried())
	if e.opts.MinTerm == nil {
		return highest + 1, nil
	}
	ctx, cancel := context.WithTimeout(ctx, Margin(e.opts.Lease))
	defer cancel()
	documents, err := e.opts.MinTerm(ctx)
	if err != nil {
		return 0, fmt.Errorf("find the highest term: %w", err)
	}
	return max(highest, documents) + 1, nil
}

// promote keeps a claim for one lease, until a leader whose lock was deleted
// can act no more, and then turns it into a lock with a term of its own: above
// what that leader wrote meanwhile, and only if the claim still stands. Before
// that nothing acts, and nothing may be released, for that would tell others to
// act at once.
func (e *Elector) promote(ctx context.Context, claim version) (version, error) {
	e.publish(&claim.doc, nil)
	holding, t := newTenure(ctx, claim.doc.Term, e.opts.Elapsed, e.deadline(claim))
	held, err := e.renew(holding, t, claim, claim.start+e.opts.Lease)
	t.end(errPromoted)
	e.forget(held)
	if err != nil {
		return version{}, err
	}
	term, err := e.nextTerm(ctx)
	if err != nil {
		return version{}, err
	}
	return e.lock.write(ctx, e.lock.document(term, false), held.etag, false)
}

var errPromoted = fmt.Errorf("%w: the claim is over", ErrNotLeader)
