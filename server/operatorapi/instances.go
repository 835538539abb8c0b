package operatorapi

import (
	"cmp"
	"context"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/fleet"
	"nstance.dev/server/groups"
	"nstance.dev/server/shard"
	"nstance.dev/server/status"
)

// ListInstances is [status.Reader.ListInstances].
func (l Leader) ListInstances(tenant, after string, size int) (page []*nstancev1.InstanceStatus, next string) {
	all, next := l.term.Status().ListInstances(tenant, after, size)
	for i := range all {
		page = append(page, instanceStatus(&all[i]))
	}
	return page, next
}

// GetInstance is [status.Reader.GetInstance].
func (l Leader) GetInstance(tenant, id string) (*nstancev1.InstanceStatus, error) {
	return answered(l.term.Status().GetInstance(tenant, id))
}

// CreateInstance is [shard.Requests.CreateInstance].
func (l Leader) CreateInstance(ctx context.Context, tenant string, req *nstancev1.CreateInstanceRequest) (*nstancev1.CreateInstanceResponse, error) {
	c := req.GetConfig()
	made, err := l.term.Requests().CreateInstance(ctx, tenant, shard.InstanceRequest{
		Group: c.GetGroup(), ID: req.GetInstanceId(), By: groups.Manager{Name: req.Manager, Takeover: req.Takeover},
		Overrides: effective.InstanceRequest{
			Template: c.GetTemplate(), InstanceType: c.GetInstanceType(), SubnetPool: c.GetSubnetPool(),
			Vars: c.GetVars().GetValues(), LoadBalancers: c.GetLoadBalancers().GetValues(),
		},
	})
	if err != nil {
		return nil, err
	}
	return &nstancev1.CreateInstanceResponse{InstanceId: made.ID.String(), Status: made.Status}, nil
}

// DeleteInstance is [shard.Requests.DeleteInstance].
func (l Leader) DeleteInstance(ctx context.Context, tenant string, req *nstancev1.DeleteInstanceRequest) (*nstancev1.DeleteInstanceResponse, error) {
	status, err := l.term.Requests().DeleteInstance(ctx, tenant, shard.RemovalRequest{
		ID: req.InstanceId, SkipDrain: req.SkipDrain, DecrementSize: req.DecrementSize, ReplaceFirst: req.ReplaceFirst,
	})
	if err != nil {
		return nil, err
	}
	return &nstancev1.DeleteInstanceResponse{Status: status}, nil
}

// AcknowledgeDrained is [shard.Requests.AcknowledgeDrained].
func (l Leader) AcknowledgeDrained(tenant string, req *nstancev1.AcknowledgeDrainedRequest) error {
	return l.term.Requests().AcknowledgeDrained(tenant, shard.Drained{InstanceID: req.InstanceId, Forced: req.Forced, Evicted: req.Evicted, Left: req.Left})
}

// UnmanagedVMs are those of [shard.Term.Unmanaged].
func (l Leader) UnmanagedVMs() (vms []*nstancev1.HeldVM) {
	for _, held := range l.term.Unmanaged() {
		vms = append(vms, &nstancev1.HeldVM{
			ProviderInstanceId: held.VM.ProviderID, InstanceId: cmp.Or(held.VM.ID.String(), held.VM.RawID),
			Tenant: held.Machine.Tenant, Group: held.Machine.Group, Reason: string(held.Cause),
			Since: stamp(held.Since), CreatedAt: stamp(held.Machine.CreatedAt),
		})
	}
	return vms
}

// AdoptVM is [shard.Requests.AdoptVM].
func (l Leader) AdoptVM(ctx context.Context, providerID string) (*nstancev1.InstanceStatus, error) {
	return answered(l.term.Requests().AdoptVM(ctx, providerID))
}

func answered(st status.Instance, err error) (*nstancev1.InstanceStatus, error) {
	if err != nil {
		return nil, err
	}
	return instanceStatus(&st), nil
}

func instanceStatus(in *status.Instance) *nstancev1.InstanceStatus {
	st := &nstancev1.InstanceStatus{
		InstanceId: in.ID.String(), Tenant: in.Group.Tenant, Group: in.Group.Name, Status: in.Status,
		CreatedAt: stamp(in.Created), RegisteredAt: stamp(in.RegisteredAt), LastSeen: stamp(in.LastSeen), AgentVersion: in.AgentVersion,
		ProviderInstanceId: in.ProviderID, ProviderUri: in.ProviderURI, OnDemand: in.OnDemand,
		InstanceType: in.InstanceType, Hostname: in.Hostname, Template: in.Template, Revision: in.Revision,
	}
	for _, addr := range []string{in.IPv4, in.IPv6} {
		if addr != "" {
			st.Addresses = append(st.Addresses, addr)
		}
	}
	if in.Machine.On {
		st.Machine = &nstancev1.InstanceMachine{Arch: in.Arch, Binding: in.Machine.Binding}
	}
	if in.Hold.Reason != "" {
		st.Hold = holdMessage(in.Hold)
	}
	addUsage(st, in.Metrics)
	if in.Details != nil {
		addDetails(st, in.Details)
	}
	if in.Removal.Reason != "" {
		st.Condemned = &nstancev1.Condemned{Reason: string(in.Removal.Reason), DeleteAt: stamp(in.Removal.DeleteAt)}
	}
	return st
}

func holdMessage(h fleet.Hold) *nstancev1.Hold {
	return &nstancev1.Hold{Reason: string(h.Reason), Since: stamp(h.Since), Until: stamp(h.Until)}
}
