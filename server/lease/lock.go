package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"nstance.dev/server/objectstore"
)

// lock is the stored lock as one server writes it: what it tried, and what it knows to
// be stored. It belongs to the goroutine of Run.
type lock struct {
	store objectstore.Store
	key   string
	opts  Options
	state *state

	attempts    []attempt // the latest writes tried, whatever became of them
	stored      attempt   // the last of them known to be stored
	stray       string    // the version that the process before this one may have had on its way
	lastUpdated time.Time
}

// errLost says that someone else wrote or deleted the lock.
var errLost = fmt.Errorf("%w: the lock was taken or changed", ErrNotLeader)

// Pauses before the tries of one round of writing.
var tries = []time.Duration{0, 100 * time.Millisecond, time.Second}

// version is a stored version of the lock that this process wrote.
type version struct {
	doc   Document
	etag  string
	start time.Duration // when its first try began: the lease counts from there
	claim bool          // it does not allow to act yet
}

// attempt is a write that was tried; it may take effect at any later time.
type attempt struct {
	version // without etag
	data    string
}

// maxAttempts bounds the memory of what was tried: more than fit into a lease.
const maxAttempts = 32

// remember notes a write before it is tried.
func (l *lock) remember(v version, data []byte) {
	if len(l.attempts) == maxAttempts {
		l.attempts = slices.Delete(l.attempts, 0, 1)
	}
	l.attempts = append(l.attempts, attempt{v, string(data)})
}

// tried returns the write of this process that has exactly this content. The last
// one that is known to be stored is never forgotten: while the store is away for
// long, attempts pile up, and then that version comes back.
func (l *lock) tried(data []byte) (attempt, bool) {
	if len(data) > 0 && l.stored.data == string(data) {
		return l.stored, true
	}
	i := slices.IndexFunc(l.attempts, func(a attempt) bool { return a.data == string(data) })
	if i < 0 {
		return attempt{}, false
	}
	return l.attempts[i], true
}

// document returns what to write next. Its time is later than in any document
// before, so that no two versions have the same content.
func (l *lock) document(term uint64, released bool) Document {
	now := l.opts.Now().UTC().Truncate(time.Millisecond)
	if !now.After(l.lastUpdated) {
		now = l.lastUpdated.Add(time.Millisecond)
	}
	l.lastUpdated = now
	return Document{
		V: Version, LeaderID: l.opts.ID, LeaderAddr: l.opts.LeaderAddr, Addrs: l.opts.Addrs,
		LastUpdated: now, Term: term, LeaseSeconds: int(l.opts.Lease / time.Second), Released: released,
	}
}

// write replaces the version with etag, or creates the lock where that is "",
// in one round of tries. Where an earlier write of the same term turns out to
// have succeeded, its version is returned instead. An error that matches
// errLost or ErrDuplicateID is final, every other leaves the outcome open.
func (l *lock) write(ctx context.Context, doc Document, etag string, claim bool) (version, error) {
	data, err := doc.Encode()
	if err != nil {
		return version{}, err
	}
	v := version{doc: doc, start: l.opts.Elapsed(), claim: claim}
	l.remember(v, data)
	if l.opts.OnWrite != nil && !claim && !doc.Released {
		l.opts.OnWrite(doc)
	}
	for _, wait := range tries {
		pause(ctx, wait)
		if ctx.Err() != nil {
			return version{}, errors.Join(err, ctx.Err())
		}
		if v.etag, err = l.put(ctx, data, etag); err == nil {
			l.stored = attempt{v, string(data)}
			return v, nil
		}
		if errors.Is(err, objectstore.ErrPrecondition) {
			var found version
			if found, err = l.reread(ctx, doc.Term, etag); err == nil || final(err) {
				return found, err
			}
		}
	}
	if errors.Is(err, objectstore.ErrUnavailable) { // it may have arrived all the same
		if found, readErr := l.reread(ctx, doc.Term, etag); readErr == nil || final(readErr) {
			return found, readErr
		}
	}
	return version{}, fmt.Errorf("write lock: %w", err)
}

// final reports whether an error of write leaves nothing to hope for.
func final(err error) bool { return errors.Is(err, errLost) || errors.Is(err, ErrDuplicateID) }

func (l *lock) put(ctx context.Context, data []byte, etag string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Margin(l.opts.Lease))
	defer cancel()
	if etag == "" {
		return l.store.PutIfAbsent(ctx, l.key, data)
	}
	return l.store.PutIfMatch(ctx, l.key, data, etag)
}

// reread finds out why a condition was refused: because of an earlier write of
// this term whose answer was lost, which it returns, or because of a stranger.
func (l *lock) reread(ctx context.Context, term uint64, etag string) (version, error) {
	ctx, cancel := context.WithTimeout(ctx, Margin(l.opts.Lease))
	defer cancel()
	now, err := l.look(ctx)
	if err != nil {
		return version{}, err
	}
	own, ok := l.tried(now.data)
	switch {
	case !now.absent() && now.etag == etag:
		return version{}, errors.New("the condition holds and was refused")
	case ok && own.doc.Term == term:
		l.stored = own
		own.etag = now.etag
		return own.version, nil
	case l.duplicate(now):
		return version{}, fmt.Errorf("%w: %q, term %d", ErrDuplicateID, now.doc.LeaderID, now.doc.Term)
	default:
		return version{}, errLost
	}
}

// duplicate reports whether a version claims the lock with this server's id but
// was written neither by this process nor by the one before it. An old version that
// somebody put back proves nothing: a live server writes later terms and times than
// those that were. Nor does the first that comes after the start: the process before
// may have died with a write on its way. There is no second one of that kind, as each
// write counts only on top of the version that its writer knew.
func (l *lock) duplicate(o observation) bool {
	if o.absent() || o.broken != nil || o.doc.Released || o.doc.LeaderID != l.opts.ID {
		return false
	}
	old := o.doc.Term < l.state.highestTerm() || o.doc.Term == l.stored.doc.Term && !o.doc.LastUpdated.After(l.lastUpdated)
	if _, ok := l.tried(o.data); ok || old {
		return false
	}
	if l.stray == "" && l.stored.data == "" {
		l.stray = string(o.data)
	}
	return l.stray != string(o.data)
}

// look reads the lock from the object store.
func (l *lock) look(ctx context.Context) (observation, error) {
	o, err := l.store.Get(ctx, l.key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return observation{}, nil
	}
	if err != nil {
		return observation{}, fmt.Errorf("read lock %s: %w", l.key, err)
	}
	seen := observation{etag: o.ETag, data: o.Data}
	seen.doc, seen.broken = Decode(o.Data)
	return seen, nil
}

// highestTried is the highest term that was tried: it may have been, or may still be
// written.
func (l *lock) highestTried() (highest uint64) {
	for _, a := range l.attempts {
		highest = max(highest, a.doc.Term)
	}
	return highest
}
