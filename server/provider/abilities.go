package provider

import (
	"context"

	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// ChecksSubnets reports whether the provider says how much room subnets have. If not,
// they have room until a create is refused.
func (c *Client) ChecksSubnets() bool { return c.subnets != nil }

// CheckSubnet asks how many machines still fit into a subnet; negative: any number. It
// must not be called unless [Client.ChecksSubnets].
func (c *Client) CheckSubnet(ctx context.Context, subnet string) (free int, err error) {
	err = c.read(ctx, "check-subnet", func(ctx context.Context) error {
		free, err = c.subnets.CheckSubnet(ctx, subnet)
		return err
	})
	return free, err
}

// ResolvesImages reports whether the provider looks images up.
func (c *Client) ResolvesImages() bool { return c.images != nil }

// ResolveImage looks a machine image up. It must not be called unless
// [Client.ResolvesImages].
func (c *Client) ResolveImage(ctx context.Context, query driver.ImageQuery) (id string, err error) {
	err = c.read(ctx, "resolve-image", func(ctx context.Context) error {
		id, err = c.images.ResolveImage(ctx, query)
		return err
	})
	return id, err
}

// ListsTypes reports whether the provider says what its machine types offer.
func (c *Client) ListsTypes() bool { return c.types != nil }

// ListTypes asks what the machine types offer. It must not be called unless
// [Client.ListsTypes].
func (c *Client) ListTypes(ctx context.Context) (list []driver.InstanceType, err error) {
	err = c.read(ctx, "list-types", func(ctx context.Context) error {
		list, err = c.types.InstanceTypes(ctx)
		return err
	})
	return list, err
}

// SwitchesPower reports whether the provider's machines can be switched off and on. Unless
// they can, the next two methods must not be called.
func (c *Client) SwitchesPower() bool { return c.power != nil }

// Power switches a group's machine.
func (c *Client) Power(ctx context.Context, group fleet.GroupID, ref driver.Ref, action driver.PowerAction) error {
	if err := c.switches.wait(ctx, group); err != nil {
		return err
	}
	return c.call(ctx, "power", group, c.switches, func(ctx context.Context) error { return c.power.Power(ctx, ref, action) })
}

// PowerActions asks what a machine can be asked for.
func (c *Client) PowerActions(ctx context.Context, ref driver.Ref) (offers []driver.PowerAction, err error) {
	err = c.read(ctx, "power-actions", func(ctx context.Context) error {
		offers, err = c.power.PowerActions(ctx, ref)
		return err
	})
	return offers, err
}

// OutputSources returns where the provider has what machines have written; none: it does not tell.
func (c *Client) OutputSources() []driver.OutputSource {
	if c.output == nil {
		return nil
	}
	return c.output.OutputSources()
}

// Output asks for what a group's machine has written. It must not be called unless there is a
// source.
func (c *Client) Output(ctx context.Context, group fleet.GroupID, ref driver.Ref, source driver.OutputSource) (out driver.Output, err error) {
	if err := c.outputs.wait(ctx, group); err != nil {
		return driver.Output{}, err
	}
	err = c.call(ctx, "output", group, c.outputs, func(ctx context.Context) error {
		out, err = c.output.Output(ctx, ref, source)
		return err
	})
	return out, err
}

// HasBalancers reports whether the provider has load balancers. Unless it does, the next
// three methods must not be called.
func (c *Client) HasBalancers() bool { return c.balancer != nil }

// Register puts a machine behind a load balancer.
func (c *Client) Register(ctx context.Context, lb driver.LoadBalancer, ref driver.Ref) error {
	return c.read(ctx, "lb-register", func(ctx context.Context) error { return c.balancer.LBRegister(ctx, lb, ref) })
}

// Deregister takes a machine from behind a load balancer.
func (c *Client) Deregister(ctx context.Context, lb driver.LoadBalancer, ref driver.Ref) error {
	return c.read(ctx, "lb-deregister", func(ctx context.Context) error { return c.balancer.LBDeregister(ctx, lb, ref) })
}

// Members lists the machines behind a load balancer.
func (c *Client) Members(ctx context.Context, lb driver.LoadBalancer) (members []driver.Ref, err error) {
	err = c.read(ctx, "lb-list", func(ctx context.Context) error {
		members, err = c.balancer.LBList(ctx, lb)
		return err
	})
	return members, err
}
