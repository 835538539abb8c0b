package shard

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"nstance.dev/protos/identity"
	"nstance.dev/server/balancers"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/groups"
	"nstance.dev/server/instances"
	"nstance.dev/server/provider"
)

// balancing says to a [balancers.Keeper] which machines belong behind which load balancers.
type balancing struct {
	cache     *cache.Cache
	instances *instances.Store
	groups    *groups.Store
	provider  *provider.Client
	reported  func(id identity.ID) bool // the agent of an instance, to this leader
}

// keeper makes what keeps machines behind the load balancers of their groups; nil if the
// provider has none.
func (b *balancing) keeper(opts Options, failed func(id identity.ID, key string, op balancers.Op, err error, news bool)) *balancers.Keeper {
	if !b.provider.HasBalancers() {
		return nil
	}
	change := func(op string, do func(context.Context, driver.LoadBalancer, driver.Ref) error) func(context.Context, string, driver.Ref) error {
		return func(ctx context.Context, key string, ref driver.Ref) error {
			lb, err := b.loadBalancer(op, key)
			if err != nil {
				return err
			}
			return do(ctx, lb, ref)
		}
	}
	return balancers.New(balancers.Options{
		Register:   change("lb-register", b.provider.Register),
		Deregister: change("lb-deregister", b.provider.Deregister),
		List:       b.listBalancer,
		Keys:       func() []string { return slices.Sorted(maps.Keys(b.groups.Config().LoadBalancers)) },
		Machine:    b.balanced,
		Machines:   b.instanceIDs,
		Ours:       b.ours,
		Failed:     failed,
		Lag:        opts.Driver.Lag(),
		Now:        opts.Now,
	})
}

// loadBalancer is one of the configuration, in the words of the driver.
func (b *balancing) loadBalancer(op, key string) (driver.LoadBalancer, error) {
	lb, ok := b.groups.Config().LoadBalancers[key]
	if !ok {
		return driver.LoadBalancer{}, driver.Fail(driver.MissingRef, op, errors.New("the configuration no longer has it"))
	}
	return driver.LoadBalancer{Key: key, Args: lb.Args}, nil
}

func (b *balancing) listBalancer(ctx context.Context, key string) ([]driver.Ref, error) {
	lb, err := b.loadBalancer("lb-list", key)
	if err != nil {
		return nil, err
	}
	return b.provider.Members(ctx, lb)
}

// balanced is an instance as load balancers care. It serves once its agent has
// reported to this leader.
func (b *balancing) balanced(id identity.ID) balancers.Machine {
	row, ok := b.instances.Known(id)
	if !ok {
		return balancers.Machine{}
	}
	m := balancers.Machine{Ref: refOf(row), Keys: b.balancersOf(row), Phase: balancers.Waiting}
	switch {
	case row.State.Leaving():
		m.Phase = balancers.Leaving
	case !row.RegisteredAt.IsZero() && row.State == fleet.Running && b.reported(id):
		m.Phase = balancers.Serving
	}
	return m
}

// balancersOf are the keys that the instance's group names, or the request that
// made it.
func (b *balancing) balancersOf(row cache.Instance) []string {
	if row.OnDemand {
		var request effective.InstanceRequest
		if json.Unmarshal(row.Overrides, &request) == nil && request.LoadBalancers != nil {
			return request.LoadBalancers
		}
	}
	if eff, ok := b.groups.Find(row.Group); ok {
		return eff.LoadBalancers
	}
	return nil
}

func (b *balancing) instanceIDs() []identity.ID {
	rows := b.cache.All()
	ids := make([]identity.ID, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	return ids
}

// ours finds the instance of a load balancer's member.
func (b *balancing) ours(ref driver.Ref) (identity.ID, bool) {
	if ref.InstanceID != "" {
		_, ok := b.cache.Instance(ref.InstanceID)
		return ref.InstanceID, ok
	}
	return b.cache.ByProviderID(ref.ProviderID)
}

func refOf(in cache.Instance) driver.Ref {
	return driver.Ref{InstanceID: in.ID, ProviderID: in.ProviderID}
}
