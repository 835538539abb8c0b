// Package balancers puts machines into what load balancers send traffic to, and takes them
// out: unmanaged instance groups and zonal network endpoint groups.
package balancers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/gcp/api"
	"nstance.dev/providers/gcp/rules"
	"nstance.dev/server/driver"
)

const (
	opRegister   = "lb-register"
	opDeregister = "lb-deregister"
	opMembers    = "lb-list"
)

// member is a machine in a pool, and what the cloud wants to hear to take it out.
type member struct {
	name string
	out  func(context.Context) error
}

// pool is what a load balancer sends traffic to: an unmanaged instance group or
// a zonal network endpoint group.
type pool interface {
	members(ctx context.Context, op string) ([]member, error)
	add(ctx context.Context, name string) error
}

// Balancers are the load balancers of a zone, by what they send traffic to. Make it with [New].
// Methods are safe for concurrent use.
type Balancers struct{ api *api.Client }

// New returns the load balancers behind a client. It asks nothing.
func New(client *api.Client) *Balancers { return &Balancers{api: client} }

// pools are those of a load balancer, or an error of class MissingRef if it has
// none that can exist.
func (b *Balancers) pools(op string, lb driver.LoadBalancer) ([]pool, error) {
	var made []pool
	groups := rules.ParseLoadBalancer(lb.Args)
	names := groups.EndpointGroups
	for _, name := range names {
		made = append(made, endpointGroup{b.api, name})
	}
	if groups.InstanceGroup != "" {
		names = append(names, groups.InstanceGroup)
		made = append(made, instanceGroup{b.api, groups.InstanceGroup})
	}
	if len(made) == 0 {
		return nil, driver.Fail(driver.MissingRef, op, fmt.Errorf("load balancer %q names no instance group and no network endpoint group", lb.Key))
	}
	for _, name := range names {
		if !rules.ResourceName.MatchString(name) {
			return nil, driver.Fail(driver.MissingRef, op, fmt.Errorf("load balancer %q: %q is not a group name; a group of the zone is given by its name", lb.Key, name))
		}
	}
	return made, nil
}

// LBRegister puts a machine into every pool of the load balancer.
func (b *Balancers) LBRegister(ctx context.Context, lb driver.LoadBalancer, ref driver.Ref) error {
	name, pools, err := b.beginLB(ctx, opRegister, lb, ref)
	if err != nil {
		return err
	}
	for _, p := range pools {
		there, err := p.members(ctx, opRegister)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(there, func(m member) bool { return m.name == name }) {
			continue
		}
		if err := p.add(ctx, name); err != nil {
			return b.whoIsMissing(ctx, name, err)
		}
	}
	return nil
}

// whoIsMissing tells a machine that does not exist from a pool that has gone: the
// cloud's answers are alike.
func (b *Balancers) whoIsMissing(ctx context.Context, name string, err error) error {
	switch driver.ClassOf(err) {
	case driver.MissingRef, driver.Invalid:
	default:
		return err
	}
	if _, found := b.api.Fetch(ctx, opRegister, name); driver.IsNotFound(found) {
		return found
	}
	return err
}

// LBDeregister takes a machine out of every pool of the load balancer.
func (b *Balancers) LBDeregister(ctx context.Context, lb driver.LoadBalancer, ref driver.Ref) error {
	name, pools, err := b.beginLB(ctx, opDeregister, lb, ref)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range pools {
		errs = append(errs, takeOut(ctx, p, name))
	}
	return errors.Join(errs...)
}

// takeOut takes a machine out of a pool. If that fails and the machine is not
// there any more, somebody else was faster, or the machine's end.
func takeOut(ctx context.Context, p pool, name string) error {
	there, err := p.members(ctx, opDeregister)
	if err != nil {
		return err
	}
	for _, m := range there {
		if m.name != name {
			continue
		}
		if err := m.out(ctx); err != nil {
			left, again := p.members(ctx, opDeregister)
			if again == nil && !slices.ContainsFunc(left, func(m member) bool { return m.name == name }) {
				return nil
			}
			return err
		}
	}
	return nil
}

func (b *Balancers) beginLB(ctx context.Context, op string, lb driver.LoadBalancer, ref driver.Ref) (string, []pool, error) {
	if err := api.Begin(ctx, op); err != nil {
		return "", nil, err
	}
	name, err := api.NameOf(op, ref)
	if err != nil {
		return "", nil, err
	}
	pools, err := b.pools(op, lb)
	return name, pools, err
}

// LBList returns the members of all pools of the load balancer. An endpoint that
// is no machine, but an address, is no member.
func (b *Balancers) LBList(ctx context.Context, lb driver.LoadBalancer) ([]driver.Ref, error) {
	if err := api.Begin(ctx, opMembers); err != nil {
		return nil, err
	}
	pools, err := b.pools(opMembers, lb)
	if err != nil {
		return nil, err
	}
	var refs []driver.Ref
	seen := map[string]bool{}
	for _, p := range pools {
		there, err := p.members(ctx, opMembers)
		if err != nil {
			return nil, err
		}
		for _, m := range there {
			if m.name == "" || seen[m.name] {
				continue
			}
			seen[m.name] = true
			ref := driver.Ref{ProviderID: m.name}
			if id, err := identity.ParseID(m.name); err == nil {
				ref.InstanceID = id
			}
			refs = append(refs, ref)
		}
	}
	return refs, nil
}
