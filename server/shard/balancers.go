package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/balancers"
	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// newBalancers makes what keeps machines behind the load balancers of their
// groups; nil if the provider has none.
func newBalancers(r *Reign) *balancers.Keeper {
	if !r.provider.HasBalancers() {
		return nil
	}
	change := func(op string, do func(context.Context, driver.LoadBalancer, driver.Ref) error) func(context.Context, string, driver.Ref) error {
		return func(ctx context.Context, key string, ref driver.Ref) error {
			lb, err := r.loadBalancer(op, key)
			if err != nil {
				return err
			}
			return do(ctx, lb, ref)
		}
	}
	return balancers.New(balancers.Options{
		Register:   change("lb-register", r.provider.Register),
		Deregister: change("lb-deregister", r.provider.Deregister),
		List:       r.listBalancer,
		Keys:       func() []string { return slices.Sorted(maps.Keys(r.wanted.config().LoadBalancers)) },
		Machine:    r.balanced,
		Machines:   r.instanceIDs,
		Ours:       r.ours,
		Failed:     r.balancerFailed,
		Lag:        r.opts.Driver.Lag(),
		Now:        r.now,
	})
}

// loadBalancer is one of the configuration, in the words of the driver.
func (r *Reign) loadBalancer(op, key string) (driver.LoadBalancer, error) {
	lb, ok := r.wanted.config().LoadBalancers[key]
	if !ok {
		return driver.LoadBalancer{}, driver.Fail(driver.MissingRef, op, errors.New("the configuration does not have it any more"))
	}
	return driver.LoadBalancer{Key: key, Args: lb.Args}, nil
}

func (r *Reign) listBalancer(ctx context.Context, key string) ([]driver.Ref, error) {
	lb, err := r.loadBalancer("lb-list", key)
	if err != nil {
		return nil, err
	}
	return r.provider.Members(ctx, lb)
}

// balanced is an instance as load balancers care. It serves once its agent has
// reported to this leader.
func (r *Reign) balanced(id identity.ID) balancers.Machine {
	row, ok := r.instances.Known(id)
	if !ok {
		return balancers.Machine{}
	}
	m := balancers.Machine{Ref: refOf(row), Keys: r.balancersOf(row), Phase: balancers.Waiting}
	switch {
	case row.State.Leaving():
		m.Phase = balancers.Leaving
	case !row.RegisteredAt.IsZero() && row.State == fleet.Running && r.health.hasReported(id):
		m.Phase = balancers.Serving
	}
	return m
}

// balancersOf are the keys that the instance's group names, or the request that
// made it.
func (r *Reign) balancersOf(row cache.Instance) []string {
	if row.OnDemand && len(row.Overrides) > 0 {
		var request config.InstanceRequest
		if json.Unmarshal(row.Overrides, &request) == nil && request.LoadBalancers != nil {
			return request.LoadBalancers
		}
	}
	if eff, ok := r.wanted.any(row.Group); ok {
		return eff.LoadBalancers
	}
	return nil
}

func (r *Reign) instanceIDs() []identity.ID {
	rows := r.cache.All()
	ids := make([]identity.ID, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	return ids
}

// ours finds the instance of a load balancer's member.
func (r *Reign) ours(ref driver.Ref) (identity.ID, bool) {
	if ref.InstanceID != "" {
		_, ok := r.cache.Instance(ref.InstanceID)
		return ref.InstanceID, ok
	}
	return r.cache.ByProviderID(ref.ProviderID)
}

func (r *Reign) balancerFailed(id identity.ID, key string, op balancers.Op, err error, news bool) {
	if r.stumble(err) {
		return
	}
	kind := driver.KindOf(err)
	r.opts.Metrics.balancerFailed(string(op), kind)
	r.log.Warn("load balancer", "load_balancer", key, "operation", op, "instance", id, "class", kind, "error", err)
	if row, ok := r.cache.Instance(id); ok && news {
		r.events.failure(r.cache, row.Group, id, string(kind), fmt.Sprintf("load balancer %q: %s: %v", key, op, err), r.now())
	}
}

// touchGroup has the instances of a group looked at whose load balancers have
// changed.
func (r *Reign) touchGroup(group fleet.GroupID) {
	if r.balancers == nil {
		return
	}
	for _, in := range r.cache.Group(group) {
		r.balancers.Touch(in.ID)
	}
}

// leaveBalancers takes an instance from behind its load balancers, as far as they
// answer in time, before anything else is done to remove it.
func (r *Reign) leaveBalancers(ctx context.Context, id identity.ID, extra time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, r.wanted.config().Server.RequestTimeout.Std()+extra)
	defer cancel()
	r.balancers.Leave(ctx, id)
}

// announceRemoval tells watchers that an instance is going to be deleted, once no
// load balancer sends it new work.
func (r *Reign) announceRemoval(id identity.ID) {
	if !r.balancers.Behind(id) {
		r.events.instance(r.cache, id, "pending_deletion")
		return
	}
	r.tasks.Go(func() {
		r.leaveBalancers(r.ctx, id, 0)
		if r.ctx.Err() == nil {
			r.events.instance(r.cache, id, "pending_deletion")
		}
	})
}
