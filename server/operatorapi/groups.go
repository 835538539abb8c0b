package operatorapi

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/groups"
	"nstance.dev/server/refusal"
	"nstance.dev/server/status"
)

// ListGroups is [status.Reader.ListGroups].
func (l Leader) ListGroups(tenant string) []*nstancev1.GroupStatus {
	all := l.term.Status().ListGroups(tenant)
	out := make([]*nstancev1.GroupStatus, len(all))
	for i, g := range all {
		out[i] = groupStatus(g)
	}
	return out
}

// UpsertGroup is [shard.Requests.UpsertGroup].
func (l Leader) UpsertGroup(ctx context.Context, tenant string, req *nstancev1.UpsertGroupRequest) (*nstancev1.GroupStatus, error) {
	change, err := checkedChange(req)
	if err != nil {
		return nil, err
	}
	g, err := l.term.Requests().UpsertGroup(ctx, tenant, req.Key, change, req.ExpectedEtag)
	if err != nil {
		return nil, err
	}
	return groupStatus(g), nil
}

// CheckGroup is [shard.Requests.CheckGroup].
func (l Leader) CheckGroup(tenant string, req *nstancev1.UpsertGroupRequest) (*nstancev1.CheckGroupResponse, error) {
	change, err := checkedChange(req)
	if err != nil {
		return nil, err
	}
	checked, err := l.term.Requests().CheckGroup(tenant, req.Key, change, req.ExpectedEtag)
	if err != nil {
		return nil, err
	}
	return &nstancev1.CheckGroupResponse{Changes: checked.Changes, Creates: checked.Creates}, nil
}

// checkedChange is what a request asks for.
func checkedChange(req *nstancev1.UpsertGroupRequest) (requests.GroupChange, error) {
	change := groupChangeOf(req)
	if err := changeDemand(&change, req.GetConfig()); err != nil {
		return change, refusal.New(refusal.InvalidArgument, "INVALID_GROUP", "%v", err)
	}
	return change, nil
}

// DeleteGroup is [shard.Requests.DeleteGroup].
func (l Leader) DeleteGroup(ctx context.Context, tenant string, req *nstancev1.DeleteGroupRequest) error {
	return l.term.Requests().DeleteGroup(ctx, tenant, req.Key, groups.Manager{Name: req.Manager, Takeover: req.Takeover})
}

// ConfirmGroups is [shard.Requests.ConfirmGroups].
func (l Leader) ConfirmGroups(ctx context.Context, tenant string, keys []string) ([]string, error) {
	return l.term.Requests().ConfirmGroups(ctx, tenant, keys)
}

func groupChangeOf(req *nstancev1.UpsertGroupRequest) requests.GroupChange {
	c := req.GetConfig()
	change := requests.GroupChange{
		Template: c.GetTemplate(), InstanceType: c.GetInstanceType(), InstanceTypes: c.GetInstanceTypes().GetValues(),
		SubnetPool: c.GetSubnetPool(), Clear: c.GetClear(), Manager: req.Manager, Takeover: req.Takeover,
	}
	if c != nil && c.Size != nil {
		size := int(*c.Size)
		change.Size = &size
	}
	if c.GetVars() != nil {
		change.Vars = orEmpty(c.Vars.Values)
	}
	if c.GetArgs() != nil {
		change.Args = make(map[string]any, len(c.Args.Values))
		for name, text := range c.Args.Values {
			change.Args[name] = argValue(text)
		}
	}
	if c.GetLoadBalancers() != nil {
		change.LoadBalancers = append([]string{}, c.LoadBalancers.Values...)
	}
	return change
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func groupStatus(g *status.Group) *nstancev1.GroupStatus {
	st := &nstancev1.GroupStatus{Key: g.Key, Tenant: g.Tenant, Deleting: g.Deleted, Conditions: conditionList(g.Conditions)}
	if g.Revision == 0 {
		return st
	}
	st.Revision, st.Etag, st.IsStatic, st.Rebuilt = g.Revision, g.ETag, g.Static, g.Rebuilt
	st.Zone, st.Region, st.Provider = g.Zone, g.Region, g.Provider
	st.Template, st.Kind, st.Arch, st.Size = g.Template, g.Kind, g.Arch, count32(g.Size)
	st.SubnetPool, st.Vars, st.LoadBalancers = g.SubnetPool, g.Vars, g.LoadBalancers
	st.InstanceTypes, st.AllowedInstanceTypes, st.Interruptible = g.InstanceTypes, g.AllowedInstanceTypes, g.Traits.Interruptible
	st.DrainTimeout, st.Dynamic, st.Capacity = durationpb.New(g.DrainTimeout), dynamicLayer(g.Dynamic), g.Offer.Resources()
	st.Pending, st.ActualSize, st.Unhealthy, st.Draining = count32(g.Pending), count32(g.Actual), count32(g.Unhealthy), count32(g.Draining)
	st.ProviderIds, st.ProviderUris = g.ProviderIDs, g.ProviderURIs
	st.Mode = document.ModeFixed
	if g.Demand != nil {
		st.Mode = document.ModeDemand
	}
	st.Demand, st.Node, st.InstanceRequirements = demandSettings(g.Demand), nodeSettings(&g.Node), requirements(g.Requirements)
	st.DemandUsage = demandUsage(g.Usage)
	if g.Offer.GPUs > 0 {
		st.Gpu = &nstancev1.Gpu{Type: g.Offer.GPUModel, Count: count32(g.Offer.GPUs)}
	}
	if g.StaticSize != nil {
		st.StaticSize = proto.Int32(count32(*g.StaticSize))
	}
	if len(g.InstanceTypes) > 0 {
		st.InstanceType = g.InstanceTypes[0]
	}
	if g.Pause != nil {
		st.Pause = pauseStatus(*g.Pause)
	}
	if g.Dynamic != nil {
		st.Manager = g.Dynamic.Manager
	}
	return st
}

// dynamicLayer is what the API has set for a group, nil if nothing.
func dynamicLayer(d *groupfile.Entry) *nstancev1.GroupConfig {
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
	out.Mode, out.Demand, out.Node, out.InstanceRequirements = textOf(d.Mode), demandSettings(d.Demand), nodeSettings(d.Node), requirements(d.InstanceRequirements)
	if len(d.InstanceTypes) > 0 {
		out.InstanceTypes = &nstancev1.StringList{Values: d.InstanceTypes}
	}
	if len(d.LoadBalancers) > 0 {
		out.LoadBalancers = &nstancev1.StringList{Values: d.LoadBalancers}
	}
	return out
}
