package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// Conditions are what a cloud is like for as long as they last. The zero value
// is a perfect cloud.
type Conditions struct {
	Latency    time.Duration // of every call, before its effect
	BootTime   time.Duration // a created machine is Pending for so long
	DeleteTime time.Duration // a deleted machine is Deleting for so long
	ListLag    time.Duration // creations and ends show in List this much later
	GetLag     time.Duration // the same, in Get
}

// Options are the settings of a [Cloud]; the zero value is a perfect cloud.
type Options struct {
	Conditions

	Limits  driver.Limits // what Limits says; zero buckets do not limit
	Enforce bool          // throttle calls beyond Limits, with one call of tolerance
	Lag     time.Duration // what Lag says; the larger of ListLag and GetLag if 0

	PageSize int // machines in one page of a list, for Fault.FailPage; 100

	// OnCall sees every call before it takes effect, in the caller's goroutine:
	// the place to check the age of the caller's lease, or that a record stands.
	// It may read the cloud's truth but make no call.
	OnCall func(Call)
	// OnCreate is told when a machine has booted, and again when a stopped one
	// was started: the place to start a simulated agent from the user data.
	OnCreate func(driver.CreateRequest)
	// OnDown is told when a booted machine no longer runs, for whatever reason.
	// Neither of the two must block. They are told one by one, in the order in
	// which things happened; with concurrent calls that may be a moment after
	// the call has returned.
	OnDown func(identity.ID)
}

// Cloud is a cloud in memory. It implements [driver.Driver] and no optional
// ability; tests add those they want by embedding:
//
//	struct {
//		*drivertest.Cloud
//		drivertest.Network
//	}{cloud, drivertest.Network{Of: cloud}}
//
// A repeated create must send an equal request, as clouds with idempotency
// tokens demand; anything else is Invalid. All methods are safe for concurrent
// use.
type Cloud struct {
	opts    Options
	buckets buckets

	mu         sync.Mutex
	conditions Conditions
	faults     Faults
	calls      []Call
	vms        map[string]*vm         // by provider id; gone ones until no lag shows them
	byID       map[identity.ID]string // every id ever used; "": deleted before it was created
	room       map[Place]int
	balancers  map[string][]string // provider ids of the members, by key
	images     []Image             // the oldest first
	made       int
	changed    chan struct{} // closed at the next change
	network    driver.Addresses
	holds      bool
	untold     []func() // what OnCreate and OnDown are yet to be told, in order
	telling    bool
}

// New makes an empty cloud.
func New(opts Options) *Cloud {
	if opts.PageSize <= 0 {
		opts.PageSize = 100
	}
	return &Cloud{
		opts:       opts,
		buckets:    newBuckets(opts),
		conditions: opts.Conditions,
		vms:        map[string]*vm{},
		byID:       map[identity.ID]string{},
		room:       map[Place]int{},
		balancers:  map[string][]string{},
		changed:    make(chan struct{}),
	}
}

// Limits returns Options.Limits.
func (c *Cloud) Limits() driver.Limits { return c.opts.Limits }

// Lag returns Options.Lag or, if that is zero, the larger lag of the conditions
// that the cloud began with.
func (c *Cloud) Lag() time.Duration {
	if c.opts.Lag > 0 {
		return c.opts.Lag
	}
	return max(c.opts.ListLag, c.opts.GetLag)
}

// SetFaults replaces the faults; nil ends them.
func (c *Cloud) SetFaults(f Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = f
}

// SetConditions replaces the conditions for what happens from now on. Lags also
// hide or show what happened before.
func (c *Cloud) SetConditions(to Conditions) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conditions = to
}

// Calls returns every call so far, in order of arrival.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Call(nil), c.calls...)
}

// Count returns how many calls of op there were so far.
func (c *Cloud) Count(op Op) int {
	n := 0
	for _, call := range c.Calls() {
		if call.Op == op {
			n++
		}
	}
	return n
}

// call carries out one call with its faults. effect runs once at most, with the
// lock held.
func (c *Cloud) call(ctx context.Context, call Call, effect func(Fault) error) error {
	op := string(call.Op)
	if err := ctx.Err(); err != nil {
		return driver.Fail(driver.Transient, op, err)
	}
	fault, latency := c.arrive(&call)
	if err := sleep(ctx, latency+fault.Latency); err != nil {
		return driver.Fail(driver.Ambiguous, op, err)
	}
	if fault.Before != nil {
		return named(op, fault.Before)
	}
	if fault.Late > 0 {
		time.AfterFunc(fault.Late, func() { // nobody is left to hear of an error
			_ = c.apply(func() error { return effect(fault) })
		})
		return driver.Fail(driver.Ambiguous, op, errors.New("no answer"))
	}
	err := c.apply(func() error { return effect(fault) })
	if slept := sleep(ctx, fault.Linger); slept != nil {
		return driver.Fail(driver.Ambiguous, op, slept)
	}
	if fault.After != nil {
		return named(op, fault.After)
	}
	return err
}

// arrive logs a call, shows it to OnCall and asks what goes wrong with it.
func (c *Cloud) arrive(call *Call) (Fault, time.Duration) {
	c.mu.Lock()
	call.N, call.At = len(c.calls)+1, time.Now()
	c.calls = append(c.calls, *call)
	faults, latency := c.faults, c.conditions.Latency
	c.mu.Unlock()
	if c.opts.OnCall != nil {
		c.opts.OnCall(*call)
	}
	if wait, ok := c.buckets.take(call.Op); !ok {
		return Fault{Before: &driver.Error{Class: driver.Throttled, RetryAfter: wait, Err: errors.New("rate exceeded")}}, latency
	}
	if faults == nil {
		return Fault{}, latency
	}
	return faults(*call), latency
}

// apply changes the world and then tells the hooks, without the lock, so that
// they may look at the cloud.
func (c *Cloud) apply(effect func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := effect()
	if c.telling {
		return err // whoever is telling goes on with ours
	}
	c.telling = true
	for len(c.untold) > 0 {
		tell := c.untold[0]
		c.untold = c.untold[1:]
		c.mu.Unlock()
		tell()
		c.mu.Lock()
	}
	c.telling = false
	return err
}

// named gives a scripted error the name of the call that it hit.
func named(op string, err error) error {
	var e *driver.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", op, err)
	}
	hit := *e
	hit.Op = op
	return &hit
}

// sleep waits like a slow network: who gives up does not learn the outcome.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// buckets are the cloud's own view of its limits; nil ones let all through.
type buckets struct{ calls, instances, deletes, reads *rate.Limiter }

func newBuckets(opts Options) buckets {
	bucket := func(b driver.Bucket) *rate.Limiter {
		if !opts.Enforce || b == (driver.Bucket{}) {
			return nil
		}
		return rate.NewLimiter(rate.Limit(b.Rate), b.Burst+1)
	}
	l := opts.Limits
	return buckets{bucket(l.Calls), bucket(l.Instances), bucket(l.Deletes), bucket(l.Reads)}
}

// take takes the tokens of a call, or says how long to wait for them.
func (b buckets) take(op Op) (time.Duration, bool) {
	of := []*rate.Limiter{b.reads}
	switch op {
	case OpCreate:
		of = []*rate.Limiter{b.calls, b.instances}
	case OpDelete:
		of = []*rate.Limiter{b.deletes}
	}
	for _, limiter := range of {
		if limiter != nil && !limiter.Allow() {
			return time.Duration(float64(time.Second) / float64(limiter.Limit())), false
		}
	}
	return 0, true
}
