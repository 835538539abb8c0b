package shard

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/garbage"
	"nstance.dev/server/instances"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/provisioning"
	"nstance.dev/server/refusal"
	"nstance.dev/server/status"
)

// AdoptVM makes an unmanaged machine an instance of the group that its tags name, as if
// its record had never been lost. Only an administrator may ask for that: tags are
// no proof, so a person vouches for them. A repeat answers with what is there.
//
// From then on the machine is like any other. Its agent gets in with a certificate
// that this cluster issued to the instance; if it does not come, the instance is
// found sick and replaced.
func (r *Requests) AdoptVM(ctx context.Context, providerID string) (status.Instance, error) {
	if providerID == "" {
		return status.Instance{}, refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "provider_instance_id: it is empty; \"nstance-admin instance list --unmanaged\" (ListHeldVMs) shows which there are")
	}
	found, ok := r.collector.Find(providerID)
	if !ok {
		return r.adoptedBefore(providerID)
	}
	m, err := r.getUnmanaged(ctx, found)
	if err != nil {
		return status.Instance{}, err
	}
	eff, err := r.adoptive(m)
	if err != nil {
		return status.Instance{}, err
	}
	rec := r.adoptedRecord(m, eff)
	switch err := r.instances.Create(r.leadership.ctx, rec); {
	case errors.Is(err, objectstore.ErrPrecondition):
		return status.Instance{}, notAdoptable("its record stands in storage again; the next listing takes it in")
	case err != nil:
		r.leadership.endIfOver(err)
		return status.Instance{}, unavailable(err) // if it is durable after all, the next listing takes it in
	}
	r.collector.Release(providerID)
	r.opts.Log.WarnContext(ctx, "machine adopted", "instance", rec.ID, "provider_id", providerID, "tenant", rec.Tenant, "group", rec.Group)
	r.liveness.Observe(m, r.opts.Now())
	r.queue.Enqueue(instances.GroupOf(rec))
	return r.status.GetInstance(rec.Tenant, rec.ID.String())
}

// adoptedBefore answers for a machine that is not unmanaged: it is an instance already,
// or there is none.
func (r *Requests) adoptedBefore(providerID string) (status.Instance, error) {
	for _, in := range r.cache.All() {
		if in.ProviderID == providerID && in.State.Live() {
			return r.status.Instance(in), nil
		}
	}
	return status.Instance{}, refusal.New(refusal.NotFound, "NOT_FOUND", "no machine %q is unmanaged; \"nstance-admin instance list --unmanaged\" (ListHeldVMs) shows which are, as of the last listing", providerID)
}

// notAdoptable says why a machine stays unmanaged.
func notAdoptable(format string, args ...any) *refusal.Error {
	refused := refusal.New(refusal.FailedPrecondition, "NOT_ADOPTABLE", format, args...)
	refused.Message = "the machine cannot be adopted: " + refused.Message
	return refused
}

// getUnmanaged asks the provider for an unmanaged machine as it is now, if nothing but its
// record is wrong with it.
func (r *Requests) getUnmanaged(ctx context.Context, found garbage.Unmanaged) (driver.Machine, error) {
	switch found.Cause {
	case fleet.CauseBadID:
		return driver.Machine{}, notAdoptable("its instance id tag %q is not one of ours, so its agent can have no identity; remove it at the provider", found.VM.RawID)
	case fleet.CauseUnreadable:
		return driver.Machine{}, notAdoptable("its record is there and cannot be read; restore or delete the object, then restart the leader")
	case fleet.CauseSecondVM:
		return driver.Machine{}, notAdoptable("instance %s has another machine; remove one of the two at the provider", found.VM.ID)
	}
	// It may outlast its caller no longer than its lease.
	ctx, stop := r.leadership.bound(ctx)
	defer stop()
	m, err := r.provider.Get(ctx, driver.Ref{InstanceID: found.VM.ID, ProviderID: found.VM.ProviderID})
	switch {
	case driver.ClassOf(err) == driver.NotFound:
		return m, refusal.New(refusal.NotFound, "NOT_FOUND", "the provider no longer has machine %q", found.VM.ProviderID)
	case err != nil:
		r.leadership.endIfOver(err)
		return m, &refusal.Error{Code: refusal.Unavailable, Reason: "PROVIDER_UNAVAILABLE", Message: "the provider could not be asked about the machine; try again", Err: err}
	case m.InstanceID != found.VM.ID:
		return m, notAdoptable("its instance id tag has changed since the last listing; wait for the next one")
	case m.Status.Down():
		return m, notAdoptable("the provider says that it is %s; start it first", m.Status)
	}
	return m, nil
}

// adoptive finds the group that takes a machine in, by its tags.
func (r *Requests) adoptive(m driver.Machine) (*effective.Group, error) {
	cfg := r.groups.Config()
	switch {
	case m.Tenant == "" || m.Group == "":
		return nil, notAdoptable("its tags do not name a tenant and a group; write them, and wait for the next listing")
	case identity.ValidateName(m.Tenant) != nil || !cfg.HasTenant(m.Tenant):
		return nil, notAdoptable("its tags name the tenant %q, which is not configured", m.Tenant)
	}
	eff, ok := r.groups.Effective(fleet.GroupID{Tenant: m.Tenant, Name: m.Group})
	switch {
	case !ok || eff.Deleted:
		return nil, notAdoptable("its tags name the group %q of tenant %q, which does not exist or cannot be used; create it first", m.Group, m.Tenant)
	case m.InstanceID.Prefix() != eff.Kind:
		return nil, notAdoptable("it is of kind %q, and the group %q has %q", m.InstanceID.Prefix(), m.Group, eff.Kind)
	}
	name := cmp.Or(m.Template, eff.Template)
	if _, ok := cfg.Templates[name]; !ok {
		return nil, notAdoptable("its tags name the template %q, which is not configured", name)
	}
	return eff, nil
}

// adoptedRecord is the record of a machine that is taken in. Its certificate is
// learnt when its agent connects.
func (r *Requests) adoptedRecord(m driver.Machine, eff *effective.Group) layout.InstanceRecord {
	created := m.CreatedAt
	if created.IsZero() {
		created = m.InstanceID.CreatedAt()
	}
	rec := layout.InstanceRecord{
		ID: m.InstanceID, Tenant: eff.Tenant, ClusterID: r.opts.Cluster, Shard: r.opts.Shard, Group: eff.Key,
		Template: cmp.Or(m.Template, eff.Template), Kind: eff.Kind, Arch: eff.Arch,
		InfraHash: adoptedHash(m, eff), InstanceType: cmp.Or(append([]string{m.Type}, eff.InstanceTypes...)...), SubnetPool: eff.SubnetPool, SubnetID: m.SubnetID,
		Provider: r.groups.Config().Server.Provider.Kind, ProviderID: m.ProviderID,
		Status: layout.StatusRegistered, CreatedAt: layout.At(created),
		Machine: r.groups.Config().Templates[cmp.Or(m.Template, eff.Template)].Machine.On() != nil,
	}
	provisioning.FillAddresses(&rec, m)
	rec.RegisteredAt = layout.At(r.opts.Now())
	return rec
}

// adoptedHash is what an adopted machine counts as made from. Nobody knows it for sure: it
// is taken for a machine of the group's present configuration, which a change replaces
// like any other, unless the provider shows that it was made from another one.
func adoptedHash(m driver.Machine, eff *effective.Group) string {
	if m.Template != "" && m.Template != eff.Template || m.Type != "" && eff.Requirements == nil && !slices.Contains(eff.InstanceTypes, m.Type) {
		return "adopted" // the hash of no configuration
	}
	return eff.InfraHash
}
