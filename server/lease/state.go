package lease

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// Status is what an elector knows about its lock.
type Status struct {
	LeaderID string    // "" while nobody is known to lead
	Addr     string    // of the leader's election listener
	Addrs    Addrs     // of the leader's services
	Term     uint64    // the highest seen; 0 before the first
	Since    time.Time // when this server first saw the leader's term
	Leading  bool      // this server leads, proved by its lease
	Problem  error     // why the lock can't be observed or taken; nil when all is well
}

// state is what an elector shows to others, and what they tell it. It is safe for
// concurrent use.
type state struct {
	id      string // of this server
	key     string // of the lock
	now     func() time.Time
	elapsed func() time.Duration
	lease   time.Duration // that this server writes

	mu       sync.Mutex
	status   Status
	doc      *Document     // last observed or written
	renewed  time.Duration // when a version was first seen or written under which somebody leads; before the first, the start
	tenure   *tenure
	outUntil time.Duration // before this, by elapsed, the lock is not taken
	changed  chan struct{} // closed and replaced at each change
}

func newState(key string, opts Options) *state {
	return &state{
		id: opts.ID, key: key, now: opts.Now, elapsed: opts.Elapsed, lease: opts.Lease, renewed: opts.Elapsed(),
		outUntil: math.MinInt64, changed: make(chan struct{}),
	}
}

// IsLeader reports whether this server leads at this very moment.
func (s *state) IsLeader() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leading()
}

// leading needs mu.
func (s *state) leading() bool { return s.tenure != nil && s.tenure.check() == nil }

// LeaderID returns the id of the leader as far as it is known, else "".
func (s *state) LeaderID() string { return s.Status().LeaderID }

// Status returns what is known about the lock.
func (s *state) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Leading = s.leading()
	if !status.Leading && status.LeaderID == s.id {
		status.LeaderID, status.Addr, status.Addrs = "", "", Addrs{}
	}
	return status
}

// Observed returns the lock document that was last seen or written, and whether
// there is one. It may be released, stale or this server's own.
func (s *state) Observed() (Document, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doc == nil {
		return Document{}, false
	}
	return *s.doc, true
}

// Held returns the document under which this server leads at this very moment:
// the answer to a standby that asks. It is false while this server does not
// lead. The document was stored before it is returned.
func (s *state) Held() (Document, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doc == nil || !s.leading() {
		return Document{}, false
	}
	return *s.doc, true
}

// publish shows a document, or its absence, to the callers of other methods.
func (s *state) publish(doc *Document, problem error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if doc != nil && !doc.Released && (s.doc == nil || !doc.SameVersion(*s.doc)) {
		s.renewed = s.elapsed()
	}
	s.doc = nil
	if doc != nil {
		own := *doc // the caller's goes on to change
		s.doc = &own
	}
	next := Status{Term: s.status.Term, Since: s.status.Since, Problem: problem}
	if doc != nil && !doc.Released {
		next.LeaderID, next.Addr, next.Addrs = doc.LeaderID, doc.LeaderAddr, doc.Addrs
	}
	if doc != nil && doc.Term > s.status.Term {
		next.Term, next.Since = doc.Term, s.now()
	}
	s.status = next
	s.notify()
}

// renewal is how a server sees the lease.
type renewal struct {
	leading bool          // this server leads, proved by its lease
	age     time.Duration // since it was renewed, as far as this server knows
	lease   time.Duration // the age at which it has run out
	term    uint64        // the highest seen; 0 before the first
}

// renewal returns how this server sees the lease. A leader counts from the beginning of its last renewal, every
// other server from when it first saw that version. An absent, released or quarantined lock renews nothing: the age goes on.
func (s *state) renewal() renewal {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := renewal{leading: s.leading(), lease: s.lease, term: s.status.Term}
	since := s.renewed
	if r.leading {
		since = s.tenure.begun(s.lease)
	}
	if s.doc != nil {
		r.lease = s.doc.Lease()
	}
	r.age = s.elapsed() - since
	return r
}

// setProblem shows why the lock can't be observed, and leaves the rest.
func (s *state) setProblem(problem error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Problem = problem
	s.notify()
}

func (s *state) setTenure(t *tenure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tenure = t
	s.notify()
}

// notify needs mu.
func (s *state) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Resign gives the leadership up: acting stops, the lock is released, and this
// server takes no part in elections for stayOut, even if nobody else leads. It
// returns when the lock is released, or can't be and runs out. When ctx ends
// first the resignation goes on. Where this server does not lead the error
// matches ErrNotLeader and nothing changes.
//
// The work that OnAcquire does must not wait for Resign, which waits for it.
func (s *state) Resign(ctx context.Context, stayOut time.Duration) error {
	s.mu.Lock()
	if !s.leading() {
		s.mu.Unlock()
		return fmt.Errorf("resign from %s: %w", s.key, ErrNotLeader)
	}
	t := s.tenure
	s.outUntil = s.elapsed() + stayOut
	t.end(errResigned)
	s.mu.Unlock()
	select {
	case <-t.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("resign from %s: %w", s.key, ctx.Err())
	}
}

// errOutranked is the end of a tenure because documents of a later term were found.
var errOutranked = fmt.Errorf("%w: a later term has written", ErrNotLeader)

// Outranked tells the elector that a document carries this term: it never leads
// under that one or a lower one from then on. If it does so now, acting stops
// and the lock is released, for this server or another to take with a higher
// term. It does not wait for that, so the work that OnAcquire does may call it.
func (s *state) Outranked(term uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Term = max(s.status.Term, term)
	if s.leading() && s.tenure.term < term {
		s.tenure.end(errOutranked)
	}
}

// out reports whether this server stays out of elections.
func (s *state) out() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.elapsed() < s.outUntil
}

// highestTerm is that of all documents that were seen, or heard of.
func (s *state) highestTerm() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.Term
}
