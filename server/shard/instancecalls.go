package shard

import (
	"context"
	"errors"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/refusal"
)

// maxPage bounds the instances of one answer.
const maxPage = 1000

// idFreshness is how old an instance id may be that a caller made itself.
const idFreshness = 24 * time.Hour

// ListInstances returns a page of the tenant's instances, oldest first, without
// those that are deleted. The next page begins after the returned token; an
// empty one says that there is none.
func (r *Reign) ListInstances(tenant, after string, size int) ([]*nstancev1.InstanceStatus, string) {
	if size <= 0 || size > maxPage {
		size = maxPage
	}
	var out []*nstancev1.InstanceStatus
	for _, in := range r.cache.Tenant(tenant) { // in the order of ids
		if in.State == fleet.Deleted || in.ID.String() <= after {
			continue
		}
		if len(out) == size {
			return out, out[size-1].InstanceId
		}
		out = append(out, r.instanceStatus(in))
	}
	return out, ""
}

// Instances returns every instance of the shard that is not deleted, in the order
// of ids. It is for the process itself: it knows no tenants.
func (r *Reign) Instances() []*nstancev1.InstanceStatus {
	rows := r.cache.All()
	out := make([]*nstancev1.InstanceStatus, len(rows))
	for i, in := range rows {
		out[i] = r.instanceStatus(in)
	}
	return out
}

// owned returns the row of an instance of the tenant; one of another tenant
// does not exist (S12).
func (r *Reign) owned(tenant, text string) (cache.Instance, error) {
	id, err := identity.ParseID(text)
	if err != nil {
		return cache.Instance{}, refusal.New(refusal.InvalidArgument, "INVALID_ID", "instance_id: %v; ListInstances says which there are", err)
	}
	in, ok := r.cache.Instance(id)
	if !ok || in.Group.Tenant != tenant {
		return cache.Instance{}, errUnknown("instance", text)
	}
	return in, nil
}

// GetInstance returns the status of one instance; a deleted one is known for a
// while.
func (r *Reign) GetInstance(tenant, id string) (*nstancev1.InstanceStatus, error) {
	in, err := r.owned(tenant, id)
	if err != nil {
		return nil, err
	}
	return r.instanceStatus(in), nil
}

// CreateInstance makes an on-demand instance for a group. It returns once the
// record is durable; whether the provider takes it shows in its status. A
// repeat with the same id returns what is there.
func (r *Reign) CreateInstance(ctx context.Context, tenant string, req *nstancev1.CreateInstanceRequest) (*nstancev1.CreateInstanceResponse, error) {
	c := req.GetConfig()
	if err := identity.ValidateName(c.GetGroup()); err != nil {
		return nil, refusal.New(refusal.InvalidArgument, "INVALID_GROUP", "config.group: %v", err)
	}
	overrides := config.InstanceRequest{
		Template: c.GetTemplate(), InstanceType: c.GetInstanceType(), SubnetPool: c.GetSubnetPool(),
		Vars: c.GetVars().GetValues(), LoadBalancers: c.GetLoadBalancers().GetValues(),
	}
	eff, err := r.wanted.onDemand(tenant, c.Group, overrides)
	if err != nil {
		return nil, groupRefusal(err)
	}
	if d := eff.Dynamic; d != nil && d.Manager != "" && req.Manager != "" && d.Manager != req.Manager && !req.Takeover {
		return nil, groupRefusal(&config.ManagedByOtherError{Manager: d.Manager})
	}
	id, err := r.chooseID(req.GetInstanceId(), eff.Kind)
	if err != nil {
		return nil, err
	}
	if in, ok := r.cache.Instance(id); ok {
		return existing(in, tenant)
	}
	if err := r.errPaused(fleet.GroupID{Tenant: tenant, Name: c.Group}); err != nil {
		return nil, err
	}
	release, err := r.onDemandRoom(tenant, id)
	if err != nil {
		return nil, groupRefusal(err)
	}
	defer release()
	launched, err := r.launch(r.ctx, id, eff, launchOptions{onDemand: true, overrides: overrides})
	if errors.Is(err, objectstore.ErrPrecondition) { // the same call twice at once
		if in, ok := r.cache.Instance(id); ok {
			return existing(in, tenant)
		}
	}
	switch {
	case err != nil:
		return nil, unavailable(err)
	case !launched:
		return nil, refusal.New(refusal.Unavailable, "NO_CAPACITY", "no machine can be made for group %q now; the error events say why", c.Group)
	}
	return &nstancev1.CreateInstanceResponse{InstanceId: id.String(), Status: string(fleet.Pending)}, nil
}

// existing answers for an id that is taken. That another tenant has it is not told
// apart from an id that is too old (S12).
func existing(in cache.Instance, tenant string) (*nstancev1.CreateInstanceResponse, error) {
	if in.Group.Tenant != tenant {
		return nil, errStaleID
	}
	if !in.OnDemand {
		return nil, refusal.New(refusal.AlreadyExists, "ID_IN_USE", "instance_id is in use")
	}
	return &nstancev1.CreateInstanceResponse{InstanceId: in.ID.String(), Status: fleet.Status(in.Instance)}, nil
}

// errStaleID refuses an id that a caller made and nobody may use any more, or that
// somebody else has used.
var errStaleID = refusal.New(refusal.InvalidArgument, "INVALID_ID", "instance_id: it must be new, and from the last 24 hours; make a new one or leave it out")

// chooseID takes the id that a caller made, or makes one.
func (r *Reign) chooseID(text, kind string) (identity.ID, error) {
	if text == "" {
		return r.opts.NewID(kind)
	}
	id, err := identity.ParseID(text)
	if err != nil {
		return "", refusal.New(refusal.InvalidArgument, "INVALID_ID", "instance_id: %v; leave it out to have one made", err)
	}
	if id.Prefix() != kind {
		return "", refusal.New(refusal.InvalidArgument, "INVALID_ID", "instance_id: it begins with %q; make one that begins with the kind of the template, %q, or leave it out", id.Prefix(), kind)
	}
	if age := r.now().Sub(id.CreatedAt()); age > idFreshness || age < -time.Minute {
		return "", errStaleID
	}
	return id, nil
}

// DeleteInstance has an instance removed. A managed one is replaced, unless the
// call lowers the size of its group in the same step. Repeats change nothing.
func (r *Reign) DeleteInstance(ctx context.Context, tenant string, req *nstancev1.DeleteInstanceRequest) (*nstancev1.DeleteInstanceResponse, error) {
	in, err := r.owned(tenant, req.InstanceId)
	if refused := (*refusal.Error)(nil); errors.As(err, &refused) && refused.Code == refusal.NotFound {
		return &nstancev1.DeleteInstanceResponse{Status: "unknown"}, nil
	}
	if err != nil {
		return nil, err
	}
	switch {
	case in.State == fleet.Deleted:
		return &nstancev1.DeleteInstanceResponse{Status: "deleted"}, nil
	case req.ReplaceFirst && req.DecrementSize:
		return nil, refusal.New(refusal.InvalidArgument, "CONTRADICTION", "replace_first and decrement_size contradict each other")
	case req.ReplaceFirst:
		err = r.replaceNamed(in, req.SkipDrain)
	case req.DecrementSize && !in.OnDemand:
		// A smaller size is a wish: while the group is paused it stands and waits.
		if err = r.retire(ctx, in, req.SkipDrain); err == nil && in.State.Leaving() {
			err = r.condemnNamed(in, req.SkipDrain)
		}
	case in.State.Leaving():
		err = r.condemnNamed(in, req.SkipDrain)
	default:
		if err = r.errPaused(in.Group); err == nil {
			err = r.condemnNamed(in, req.SkipDrain)
		}
	}
	if err != nil {
		return nil, groupRefusal(err)
	}
	return &nstancev1.DeleteInstanceResponse{Status: "deleting"}, nil
}
