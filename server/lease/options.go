package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options are the settings of an Elector; zero fields take the defaults. The
// callbacks may be nil.
type Options struct {
	ID         string // of this server, unique among those that share the lock; required
	LeaderAddr string // host:port where the other servers reach this one's election listener
	Addrs      Addrs  // where clients reach this server's services

	Lease time.Duration // L, in whole seconds, at least MinLease; 15s
	Renew time.Duration // between the leader's renewals, at most L/3; L/3
	Poll  time.Duration // between a standby's looks at the lock, at most L/10; 500ms or L/25

	// Ask asks the server that listens for elections at addr for the document
	// under which it holds this lock, and errs where it does not hold it. While
	// it answers, a standby asks it every Poll and leaves the stored lock alone
	// (peer mode); when it does not, the stored lock is read at the same pace.
	// What it returns must have been stored. Where no server can be asked yet the
	// error matches ErrCannotAsk. nil: the lock is always read from storage.
	Ask func(ctx context.Context, addr string) (Document, error)

	// Recheck is how often a standby looks at the stored lock though the leader
	// answers, and the longest that it leaves a leader alone that did not; 30s.
	Recheck time.Duration

	// MinTerm returns the highest term in the documents that the leader writes;
	// the new term is above it. It is called before each try to take the lock
	// and delays it, at most by a call's time-out: it should read a document or
	// two, not all. Where it errs the lock is not taken.
	MinTerm func(ctx context.Context) (uint64, error)

	// NothingStored reports whether nothing was ever stored below this lock, so
	// that an absent lock may be created at once. Otherwise, and where it errs
	// or is nil, someone may have deleted the lock of a live leader, and one
	// full lease passes before this server acts.
	NothingStored func(ctx context.Context) (bool, error)

	// Reclaim returns the last term under which this server led, as kept in its
	// own folder, and true only where a file lock on that folder proves that
	// the process which led is gone. A lock with this id and term is then taken
	// without waiting.
	Reclaim func() (term uint64, ok bool)

	// OnWrite is called before each write of the lock that makes this server the leader
	// or keeps it so, with what it is about to store; not before a claim or a release. Whoever
	// notes it can tell afterwards which versions are this process's. It must return soon.
	OnWrite func(Document)

	// OnAcquire is called, in a goroutine of its own, with a leadership context
	// and the term. It may act for as long as it likes, and must return soon
	// after ctx ended: the next campaign waits for it.
	OnAcquire func(ctx context.Context, term uint64)

	// OnFollow is called each time a version of the lock is seen first under which
	// another server leads. It must return at once.
	OnFollow func(leader Document)

	// OnLose is called once for each OnAcquire, after its context ended and
	// before the lock is released. It returns once acting has stopped.
	OnLose func()

	Log *slog.Logger // slog.Default()

	// Now is the wall clock that stamps the document and decides nothing; time.Now.
	Now func() time.Time

	// Elapsed is the clock by which leases age: it never goes back, and goes on
	// while the box is suspended. Linux: CLOCK_BOOTTIME; else the monotonic clock.
	Elapsed func() time.Duration
}

func (o Options) withDefaults() Options {
	if o.Lease == 0 {
		o.Lease = 15 * time.Second
	}
	if o.Renew == 0 {
		o.Renew = o.Lease / 3
	}
	if o.Poll == 0 {
		o.Poll = min(500*time.Millisecond, o.Lease/25)
	}
	if o.Recheck == 0 {
		o.Recheck = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Elapsed == nil {
		o.Elapsed = bootTime
	}
	return o
}

// Validate reports everything that is wrong, not only the first; zero fields
// stand for their defaults.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	if o.ID == "" {
		errs = append(errs, errors.New("id: it is empty; give each server one of its own"))
	}
	if o.Lease < MinLease || o.Lease > MaxLease || o.Lease%time.Second != 0 {
		errs = append(errs, fmt.Errorf("lease: %v is not a number of whole seconds between %v and %v", o.Lease, MinLease, MaxLease))
	}
	if o.Renew <= 0 || o.Renew > o.Lease/3 {
		errs = append(errs, fmt.Errorf("renew: %v is not between 0 and a third of the lease, %v", o.Renew, o.Lease/3))
	}
	if o.Poll <= 0 || o.Poll > o.Lease/10 {
		errs = append(errs, fmt.Errorf("poll: %v is not between 0 and a tenth of the lease, %v", o.Poll, o.Lease/10))
	}
	if o.Recheck < 0 {
		errs = append(errs, fmt.Errorf("recheck: %v is below 0", o.Recheck))
	}
	return errors.Join(errs...)
}

// Margin is how long before the end of its lease a leader stops to act, and
// how long one call to the store may take.
func Margin(lease time.Duration) time.Duration {
	return min(lease/5, 3*time.Second)
}
