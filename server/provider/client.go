// Package provider is the driver as the leader of a shard calls it: nothing else calls
// a driver's methods about machines.
//
// A call waits for its token, proves the lease at the moment at which it is sent (S2),
// and has a time-out of its own. The token buckets are the only thing that spaces calls
// out (S21); a group that the provider throttles is slowed down and no other (L7). Each
// outcome is told to the metrics, and whether the provider answers at all is kept as
// [Trouble]. What to call, and what to do about an error, is left to the callers: errors
// are those of the driver, unchanged.
//
// The wait for a create or a delete and the call itself are two steps, because the caller
// looks again between them whether the machine is still wanted, or unwanted.
//
// Lock order: the mutex of a bucket and that of the trouble are taken one at a time, and
// nothing is called under them.
package provider

import (
	"context"
	"errors"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/lease"
)

// Options are the settings of a [Client].
type Options struct {
	Limits  document.Limits  // override those of the driver, each for itself
	Timeout time.Duration    // of one call; required
	Now     func() time.Time // required
	// Called is told each call that was sent: which, how long it took, how it ended. It
	// must be quick and safe for concurrent use; nil: nobody is told.
	Called func(op string, took time.Duration, err error)
	// Waited is told how long each call that the buckets admitted had waited for them. It must be quick and safe
	// for concurrent use; nil: nobody is told.
	Waited func(op string, took time.Duration)
}

// Client calls the provider. It is safe for concurrent use.
type Client struct {
	drv  driver.Driver
	opts Options

	calls, creates, deletes, reads *bucket
	switches                       *bucket // of power
	outputs                        *bucket // of what machines have written
	trouble                        troubleBook

	// The abilities that a driver may lack; nil then.
	subnets  driver.SubnetChecker
	images   driver.ImageResolver
	types    driver.TypeCatalog
	balancer driver.Balancer
	power    driver.Powerer
	output   driver.Outputter
}

// New returns a client of the driver. It starts nothing.
func New(drv driver.Driver, opts Options) *Client {
	if opts.Called == nil {
		opts.Called = func(string, time.Duration, error) {}
	}
	if opts.Waited == nil {
		opts.Waited = func(string, time.Duration) {}
	}
	limits := drv.Limits()
	c := &Client{
		drv: drv, opts: opts,
		calls:   newBucket(limits.Calls, opts.Limits.Calls, opts.Now),
		creates: newBucket(limits.Instances, opts.Limits.Instances, opts.Now),
		deletes: newBucket(limits.Deletes, opts.Limits.Deletes, opts.Now),
		reads:   newBucket(limits.Reads, opts.Limits.Reads, opts.Now),

		switches: newBucket(driver.Bucket{Rate: switchesPerSecond, Burst: switchesPerSecond}, nil, opts.Now),
		outputs:  newBucket(driver.Bucket{Rate: outputsPerSecond, Burst: outputsPerSecond}, nil, opts.Now),
	}
	c.subnets, _ = drv.(driver.SubnetChecker)
	c.images, _ = drv.(driver.ImageResolver)
	c.types, _ = drv.(driver.TypeCatalog)
	c.balancer, _ = drv.(driver.Balancer)
	c.power, _ = drv.(driver.Powerer)
	c.output, _ = drv.(driver.Outputter)
	return c
}

// switchesPerSecond bounds how fast the power of machines is switched: a fleet that goes off at
// once is hardly ever what somebody wants.
const switchesPerSecond = 5

// outputsPerSecond bounds how often people ask for what machines have written: they share the
// provider's patience with what keeps the machines alive.
const outputsPerSecond = 5

// noGroup is who a call is made for that no single group asks for.
var noGroup fleet.GroupID

// WaitCreate waits until some create may be sent. Whose turn it is is the caller's
// decision, by [Client.CreateDelay].
func (c *Client) WaitCreate(ctx context.Context) error {
	return c.waited("create", func() error {
		if err := c.calls.wait(ctx, noGroup); err != nil {
			return err
		}
		return c.creates.wait(ctx, noGroup)
	})
}

// CreateDelay is for how long no create of a group should be sent, because the provider
// has throttled it: 0 is the rule. The caller who then sends one says so by
// [Client.TakeDelayed] first.
func (c *Client) CreateDelay(group fleet.GroupID) time.Duration { return c.calls.delay(group) }

// TakeDelayed takes the token that a create of a throttled group needs besides that of
// [Client.WaitCreate]. For other groups it does nothing.
func (c *Client) TakeDelayed(group fleet.GroupID) { c.calls.takeHalf(group) }

// maxCreatesWithin bounds what CreatesWithin answers where the provider sets no limit.
const maxCreatesWithin = 10_000

// CreatesWithin is how many creates of a group the buckets admit in a span of time, at
// most 10,000.
func (c *Client) CreatesWithin(group fleet.GroupID, span time.Duration) int {
	rate := min(c.calls.rate(group), c.creates.rate(group))
	return int(min(rate*span.Seconds(), maxCreatesWithin))
}

// Create sends a create for which [Client.WaitCreate] was waited.
func (c *Client) Create(ctx context.Context, req driver.CreateRequest) (m driver.Machine, err error) {
	group := fleet.GroupID{Tenant: req.Tenant, Name: req.Group}
	err = c.call(ctx, "create", group, c.calls, func(ctx context.Context) error {
		m, err = c.drv.Create(ctx, req)
		return err
	})
	return m, err
}

// WaitDelete waits until a delete of a group's machine may be sent.
func (c *Client) WaitDelete(ctx context.Context, group fleet.GroupID) error {
	return c.waited("delete", func() error { return c.deletes.wait(ctx, group) })
}

// Delete sends a delete for which [Client.WaitDelete] was waited.
func (c *Client) Delete(ctx context.Context, group fleet.GroupID, ref driver.Ref) error {
	return c.call(ctx, "delete", group, c.deletes, func(ctx context.Context) error { return c.drv.Delete(ctx, ref) })
}

// Get asks for one machine.
func (c *Client) Get(ctx context.Context, ref driver.Ref) (m driver.Machine, err error) {
	err = c.read(ctx, "get", func(ctx context.Context) error {
		m, err = c.drv.Get(ctx, ref)
		return err
	})
	return m, err
}

// List asks for all machines of an owner.
func (c *Client) List(ctx context.Context, owner driver.Owner) (ms []driver.Machine, err error) {
	err = c.read(ctx, "list", func(ctx context.Context) error {
		ms, err = c.drv.List(ctx, owner)
		return err
	})
	return ms, err
}

// ReadsPerSecond is the rate at which the provider lets itself be asked; infinite if it
// sets no limit.
func (c *Client) ReadsPerSecond() float64 { return c.reads.rate(noGroup) }

// read makes a call that neither makes nor ends a machine.
func (c *Client) read(ctx context.Context, op string, do func(context.Context) error) error {
	if err := c.waited(op, func() error { return c.reads.wait(ctx, noGroup) }); err != nil {
		return err
	}
	return c.call(ctx, op, noGroup, c.reads, do)
}

// waited tells how long a wait took that ended with a token.
func (c *Client) waited(op string, wait func() error) error {
	began := c.opts.Now()
	if err := wait(); err != nil {
		return err
	}
	c.opts.Waited(op, c.opts.Now().Sub(began))
	return nil
}

// call sends one call for a group. Its context ends with the lease or the time-out.
func (c *Client) call(ctx context.Context, op string, group fleet.GroupID, b *bucket, do func(context.Context) error) error {
	if err := lease.Check(ctx); err != nil {
		return err
	}
	callCtx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	started := c.opts.Now()
	err := do(callCtx)
	now := c.opts.Now()
	if !errors.Is(ctx.Err(), context.Canceled) { // else its end says nothing about the provider
		c.trouble.outcome(started, now, err)
	}
	c.opts.Called(op, now.Sub(started), err)
	if err != nil && driver.ClassOf(err) == driver.Throttled {
		b.throttled(group)
	}
	return err
}
