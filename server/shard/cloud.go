package shard

import (
	"context"
	"errors"
	"time"

	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/lease"
)

// cloud is the driver as a leader uses it. A call waits for its token, proves
// the lease (S2), and then has the request time-out. The buckets are the only
// thing that spaces calls out (S21).
type cloud struct {
	drv     driver.Driver
	timeout time.Duration
	metrics *Metrics
	now     func() time.Time
	reach   reach

	calls, instances, deletes, reads *tokens

	subnets driver.SubnetChecker // nil: subnets have room until a create is refused
	images  driver.ImageResolver // nil: images are not looked up
	types   driver.TypeCatalog   // nil: nobody says what types offer

	balancer driver.Balancer // nil: there are no load balancers
}

func newCloud(drv driver.Driver, limits config.Limits, timeout time.Duration, metrics *Metrics, now func() time.Time) *cloud {
	def := drv.Limits()
	subnets, _ := drv.(driver.SubnetChecker)
	images, _ := drv.(driver.ImageResolver)
	types, _ := drv.(driver.TypeCatalog)
	balancer, _ := drv.(driver.Balancer)
	return &cloud{
		subnets: subnets, images: images, types: types, balancer: balancer,
		drv: drv, timeout: timeout, metrics: metrics, now: now,
		calls:     newTokens(def.Calls, limits.Calls, now),
		instances: newTokens(def.Instances, limits.Instances, now),
		deletes:   newTokens(def.Deletes, limits.Deletes, now),
		reads:     newTokens(def.Reads, limits.Reads, now),
	}
}

// admit waits until some create may be sent, of a group whose turn it is; see
// [tokens.shut].
func (c *cloud) admit(ctx context.Context) error {
	if err := c.calls.wait(ctx, noGroup); err != nil {
		return err
	}
	return c.instances.wait(ctx, noGroup)
}

// createsIn is how many creates of a group the buckets admit in a span of time, at most
// maxCreatesIn.
func (c *cloud) createsIn(group fleet.GroupID, span time.Duration) int {
	rate := min(c.calls.rate(group), c.instances.rate(group))
	return int(min(rate*span.Seconds(), maxCreatesIn))
}

const maxCreatesIn = 10_000

// create sends a create that was admitted.
func (c *cloud) create(ctx context.Context, req driver.CreateRequest) (m driver.Machine, err error) {
	group := fleet.GroupID{Tenant: req.Tenant, Name: req.Group}
	err = c.call(ctx, "create", group, c.calls, func(ctx context.Context) error {
		m, err = c.drv.Create(ctx, req)
		return err
	})
	return m, err
}

// admitDelete waits until a delete of a group's may be sent.
func (c *cloud) admitDelete(ctx context.Context, group fleet.GroupID) error {
	return c.deletes.wait(ctx, group)
}

// delete sends a delete that was admitted.
func (c *cloud) delete(ctx context.Context, group fleet.GroupID, ref driver.Ref) error {
	return c.call(ctx, "delete", group, c.deletes, func(ctx context.Context) error { return c.drv.Delete(ctx, ref) })
}

func (c *cloud) get(ctx context.Context, ref driver.Ref) (m driver.Machine, err error) {
	err = c.read(ctx, "get", func(ctx context.Context) error {
		m, err = c.drv.Get(ctx, ref)
		return err
	})
	return m, err
}

func (c *cloud) list(ctx context.Context, owner driver.Owner) (ms []driver.Machine, err error) {
	err = c.read(ctx, "list", func(ctx context.Context) error {
		ms, err = c.drv.List(ctx, owner)
		return err
	})
	return ms, err
}

// read makes one call of an ability that neither makes nor ends a machine.
func (c *cloud) read(ctx context.Context, op string, do func(context.Context) error) error {
	if err := c.reads.wait(ctx, noGroup); err != nil {
		return err
	}
	return c.call(ctx, op, noGroup, c.reads, do)
}

// checkSubnet asks how many machines still fit into a subnet; negative: any
// number.
func (c *cloud) checkSubnet(ctx context.Context, subnet string) (free int, err error) {
	err = c.read(ctx, "check-subnet", func(ctx context.Context) error {
		free, err = c.subnets.CheckSubnet(ctx, subnet)
		return err
	})
	return free, err
}

// resolveImage looks a machine image up.
func (c *cloud) resolveImage(ctx context.Context, query driver.ImageQuery) (id string, err error) {
	err = c.read(ctx, "resolve-image", func(ctx context.Context) error {
		id, err = c.images.ResolveImage(ctx, query)
		return err
	})
	return id, err
}

// listTypes asks what the types offer.
func (c *cloud) listTypes(ctx context.Context) (list []driver.InstanceType, err error) {
	err = c.read(ctx, "list-types", func(ctx context.Context) error {
		list, err = c.types.InstanceTypes(ctx)
		return err
	})
	return list, err
}

// noGroup is who a call is made for that no single group asks for.
var noGroup fleet.GroupID

// call runs one provider call for a group. Its context ends with the lease or the time-out.
func (c *cloud) call(ctx context.Context, op string, group fleet.GroupID, b *tokens, do func(context.Context) error) error {
	if err := lease.Check(ctx); err != nil {
		return err
	}
	callCtx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	started := c.now()
	err := do(callCtx)
	if !errors.Is(ctx.Err(), context.Canceled) { // else its end says nothing about the provider
		c.reach.outcome(started, c.now(), err)
	}
	c.metrics.providerCall(op, c.now().Sub(started), err)
	if err != nil && driver.KindOf(err) == driver.Throttled {
		b.complain(group)
	}
	return err
}

// lost reports whether err means that this server no longer leads.
func lost(err error) bool { return errors.Is(err, lease.ErrNotLeader) }
