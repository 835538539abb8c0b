package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"nstance.dev/server/objectstore"
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

// Elector campaigns for one lock. Its methods are safe for concurrent use; Run
// is called once.
type Elector struct {
	opts  Options
	store objectstore.Store
	key   string

	// These belong to the goroutine of Run.
	first       bool // no version was seen yet
	seen        observation
	since       time.Duration // when seen was first seen, by opts.Elapsed
	attempts    []attempt     // the latest writes tried, whatever became of them
	stored      attempt       // the last of them known to be stored
	stray       string        // the version that the process before this one may have had on its way
	lastUpdated time.Time
	peer        peer

	mu       sync.Mutex
	status   Status
	doc      *Document // last observed or written
	tenure   *tenure
	outUntil time.Duration // before this, by opts.Elapsed, the lock is not taken
	changed  chan struct{} // closed and replaced at each change
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
	return &Elector{
		opts: opts, store: store, key: key, first: true, outUntil: math.MinInt64,
		changed: make(chan struct{}),
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

// IsLeader reports whether this server leads at this very moment.
func (e *Elector) IsLeader() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leading()
}

// leading needs mu.
func (e *Elector) leading() bool { return e.tenure != nil && e.tenure.check() == nil }

// LeaderID returns the id of the leader as far as it is known, else "".
func (e *Elector) LeaderID() string { return e.Status().LeaderID }

// Status returns what is known about the lock.
func (e *Elector) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.status
	s.Leading = e.leading()
	if !s.Leading && s.LeaderID == e.opts.ID {
		s.LeaderID, s.Addr, s.Addrs = "", "", Addrs{}
	}
	return s
}

// Observed returns the lock document that was last seen or written, and whether
// there is one. It may be released, stale or this server's own.
func (e *Elector) Observed() (Document, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.doc == nil {
		return Document{}, false
	}
	return *e.doc, true
}

// publish shows a document, or its absence, to the callers of other methods.
func (e *Elector) publish(doc *Document, problem error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.doc = nil
	if doc != nil {
		own := *doc // the caller's goes on to change
		e.doc = &own
	}
	next := Status{Term: e.status.Term, Since: e.status.Since, Problem: problem}
	if doc != nil && !doc.Released {
		next.LeaderID, next.Addr, next.Addrs = doc.LeaderID, doc.LeaderAddr, doc.Addrs
	}
	if doc != nil && doc.Term > e.status.Term {
		next.Term, next.Since = doc.Term, e.opts.Now()
	}
	e.status = next
	e.notify()
}

// setProblem shows why the lock can't be observed, and leaves the rest.
func (e *Elector) setProblem(problem error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status.Problem = problem
	e.notify()
}

func (e *Elector) setTenure(t *tenure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tenure = t
	e.notify()
}

// notify needs mu.
func (e *Elector) notify() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// pause waits for d, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
