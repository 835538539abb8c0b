package shard

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/catalog"
	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// ListGroups returns the status of the tenant's groups in the order of their
// keys, those included that still shrink to nothing after their deletion. Their
// conditions are those of the last pass.
func (r *Reign) ListGroups(tenant string) []*nstancev1.GroupStatus {
	all := r.groupsOf(tenant)
	for _, st := range all {
		st.Conditions = r.conditionsOf(fleet.GroupID{Tenant: tenant, Name: st.Key})
	}
	return all
}

// groupsOf returns the groups of a tenant as events show them.
func (r *Reign) groupsOf(tenant string) []*nstancev1.GroupStatus {
	var out []*nstancev1.GroupStatus
	for id, eff := range r.wanted.all() {
		if id.Tenant == tenant {
			out = append(out, r.groupStatus(id, eff))
		}
	}
	slices.SortFunc(out, func(a, b *nstancev1.GroupStatus) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// groupStatus describes one group and counts its instances. Each description
// has a revision above those of all earlier ones of its tenant.
func (r *Reign) groupStatus(id fleet.GroupID, eff *config.EffectiveGroup) *nstancev1.GroupStatus {
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	r.events.described[id.Tenant]++
	provider := r.wanted.config().Server.Provider
	st := &nstancev1.GroupStatus{
		Key: id.Name, Tenant: id.Tenant, Template: eff.Template, Size: int32(eff.Size),
		SubnetPool: eff.SubnetPool, Vars: eff.Vars, IsStatic: eff.Static, Etag: eff.ETag,
		Kind: eff.Kind, Arch: eff.Arch, Zone: provider.Zone, Region: provider.Region, Provider: provider.Kind,
		Deleting: eff.Deleted, AllowedInstanceTypes: eff.AllowedInstanceTypes, LoadBalancers: eff.LoadBalancers,
		Interruptible: eff.Traits.Interruptible, Rebuilt: eff.Rebuilt,
		InstanceTypes: eff.InstanceTypes, DrainTimeout: durationpb.New(eff.DrainTimeout), Dynamic: dynamicLayer(eff.Dynamic),
	}
	offer := r.catalog.Offer(eff.InstanceTypes).Or(catalog.Offer{VCPU: eff.Traits.VCPU, MemoryMiB: eff.Traits.MemoryMiB})
	st.Capacity = offer.Resources()
	if offer.GPUs > 0 {
		st.Gpu = &nstancev1.Gpu{Type: offer.GPUModel, Count: int32(offer.GPUs)}
	}
	if eff.StaticSize != nil {
		st.StaticSize = proto.Int32(int32(*eff.StaticSize))
	}
	if len(eff.InstanceTypes) > 0 {
		st.InstanceType = eff.InstanceTypes[0]
	}
	if p, ok := r.wanted.pauseOf(id, r.now()); ok {
		st.Pause = pauseStatus(p)
	}
	if eff.Dynamic != nil {
		st.Manager = eff.Dynamic.Manager
	}
	for _, in := range r.cache.Group(id) {
		if !in.OnDemand {
			r.countInto(st, in)
		}
	}
	slices.Sort(st.ProviderIds)
	slices.Sort(st.ProviderUris)
	st.Revision = r.events.revision(r.events.described[id.Tenant])
	return st
}

func (r *Reign) countInto(st *nstancev1.GroupStatus, in cache.Instance) {
	switch {
	case in.State == fleet.Pending || in.State == fleet.Provisioning:
		st.Pending++
	case in.State.Registered():
		st.ActualSize++
		if in.ProviderID != "" {
			st.ProviderIds = append(st.ProviderIds, in.ProviderID)
			st.ProviderUris = append(st.ProviderUris, r.providerURI(in))
		}
	case in.State.Sick():
		st.Unhealthy++
	case in.State.Leaving():
		st.Draining++
	}
}

// providerURI is how other systems know a machine; unique over all shards.
func (r *Reign) providerURI(in cache.Instance) string {
	if d, ok := r.opts.Driver.(driver.URIer); ok {
		return d.ProviderURI(refOf(in))
	}
	return "nstance://" + r.opts.Shard + "/" + in.ID.String()
}

// dynamicLayer is what the API has set for a group, nil if nothing.
func dynamicLayer(d *config.DynamicGroup) *nstancev1.GroupConfig {
	if d == nil {
		return nil
	}
	out := &nstancev1.GroupConfig{}
	if d.Template != "" {
		out.Template = &d.Template
	}
	if d.Size != nil {
		size := int32(*d.Size)
		out.Size = &size
	}
	if d.InstanceType != "" {
		out.InstanceType = &d.InstanceType
	}
	if d.SubnetPool != "" {
		out.SubnetPool = &d.SubnetPool
	}
	if d.Vars != nil {
		out.Vars = &nstancev1.StringMap{Values: d.Vars}
	}
	if len(d.InstanceTypes) > 0 {
		out.InstanceTypes = &nstancev1.StringList{Values: d.InstanceTypes}
	}
	if len(d.LoadBalancers) > 0 {
		out.LoadBalancers = &nstancev1.StringList{Values: d.LoadBalancers}
	}
	return out
}

// instanceStatus describes one instance.
func (r *Reign) instanceStatus(in cache.Instance) *nstancev1.InstanceStatus {
	st := &nstancev1.InstanceStatus{
		InstanceId: in.ID.String(), Tenant: in.Group.Tenant, Status: fleet.Status(in.Instance),
		CreatedAt: timestamppb.New(in.Created), ProviderInstanceId: in.ProviderID, Group: in.Group.Name,
		OnDemand: in.OnDemand, InstanceType: in.InstanceType, Hostname: in.Hostname, Template: in.Template,
		Revision: r.events.revision(in.Revision),
	}
	if in.ProviderID != "" {
		st.ProviderUri = r.providerURI(in)
	}
	for _, addr := range []string{in.IPv4, in.IPv6} {
		if addr != "" {
			st.Addresses = append(st.Addresses, addr)
		}
	}
	if !in.RegisteredAt.IsZero() {
		st.RegisteredAt = timestamppb.New(in.RegisteredAt)
	}
	if in.Removal.Reason != "" {
		st.Condemned = &nstancev1.Condemned{Reason: string(in.Removal.Reason)}
		if !in.Removal.DeleteAt.IsZero() {
			st.Condemned.DeleteAt = timestamppb.New(in.Removal.DeleteAt)
		}
	}
	if h, ok := r.cache.Health(in.ID); ok {
		if !h.ReceivedAt.IsZero() {
			st.LastSeen = timestamppb.New(h.ReceivedAt)
		}
		st.AgentVersion = h.AgentVersion
	}
	return st
}
