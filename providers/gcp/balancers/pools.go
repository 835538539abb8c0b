package balancers

import (
	"context"
	"errors"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/iterator"

	"nstance.dev/providers/gcp/api"
)

// instanceGroup is an unmanaged instance group of the zone. Its members are
// machines, each once.
type instanceGroup struct {
	api  *api.Client
	name string
}

func (g instanceGroup) members(ctx context.Context, op string) ([]member, error) {
	var found []member
	it := g.api.Groups.ListInstances(ctx, &computepb.ListInstancesInstanceGroupsRequest{
		Project: g.api.Project, Zone: g.api.Zone, InstanceGroup: g.name, MaxResults: new(uint32(api.PageSize)),
		InstanceGroupsListInstancesRequestResource: &computepb.InstanceGroupsListInstancesRequest{},
	})
	for {
		m, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return found, nil
		}
		if err != nil {
			return nil, api.Fail(op, api.Reads, err)
		}
		name := api.BaseName(m.GetInstance())
		found = append(found, member{name: name, out: func(ctx context.Context) error { return g.remove(ctx, name) }})
	}
}

func (g instanceGroup) add(ctx context.Context, name string) error {
	running, err := g.api.Groups.AddInstances(ctx, &computepb.AddInstancesInstanceGroupRequest{
		Project: g.api.Project, Zone: g.api.Zone, InstanceGroup: g.name,
		InstanceGroupsAddInstancesRequestResource: &computepb.InstanceGroupsAddInstancesRequest{Instances: g.reference(name)},
	})
	if err != nil && api.ReasonOf(err) == api.ReasonMember {
		return nil
	}
	return outcome(ctx, g.api, opRegister, running, err)
}

func (g instanceGroup) remove(ctx context.Context, name string) error {
	running, err := g.api.Groups.RemoveInstances(ctx, &computepb.RemoveInstancesInstanceGroupRequest{
		Project: g.api.Project, Zone: g.api.Zone, InstanceGroup: g.name,
		InstanceGroupsRemoveInstancesRequestResource: &computepb.InstanceGroupsRemoveInstancesRequest{Instances: g.reference(name)},
	})
	return outcome(ctx, g.api, opDeregister, running, err)
}

func (g instanceGroup) reference(name string) []*computepb.InstanceReference {
	return []*computepb.InstanceReference{{Instance: new(g.api.Zonal("instances", name))}}
}

// endpointGroup is a zonal network endpoint group. A machine is in it with its
// primary address and the group's default port; somebody may have put it there
// with other ports, and all of them are taken out.
type endpointGroup struct {
	api  *api.Client
	name string
}

func (g endpointGroup) members(ctx context.Context, op string) ([]member, error) {
	var found []member
	it := g.api.NEGs.ListNetworkEndpoints(ctx, &computepb.ListNetworkEndpointsNetworkEndpointGroupsRequest{
		Project: g.api.Project, Zone: g.api.Zone, NetworkEndpointGroup: g.name, MaxResults: new(uint32(api.PageSize)),
		NetworkEndpointGroupsListEndpointsRequestResource: &computepb.NetworkEndpointGroupsListEndpointsRequest{},
	})
	for {
		m, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return found, nil
		}
		if err != nil {
			return nil, api.Fail(op, api.Reads, err)
		}
		endpoint := m.GetNetworkEndpoint()
		found = append(found, member{
			name: api.BaseName(endpoint.GetInstance()),
			out:  func(ctx context.Context) error { return g.detach(ctx, endpoint) },
		})
	}
}

func (g endpointGroup) add(ctx context.Context, name string) error {
	running, err := g.api.NEGs.AttachNetworkEndpoints(ctx, &computepb.AttachNetworkEndpointsNetworkEndpointGroupRequest{
		Project: g.api.Project, Zone: g.api.Zone, NetworkEndpointGroup: g.name,
		NetworkEndpointGroupsAttachEndpointsRequestResource: &computepb.NetworkEndpointGroupsAttachEndpointsRequest{
			NetworkEndpoints: []*computepb.NetworkEndpoint{{Instance: &name}},
		},
	})
	return outcome(ctx, g.api, opRegister, running, err)
}

func (g endpointGroup) detach(ctx context.Context, endpoint *computepb.NetworkEndpoint) error {
	running, err := g.api.NEGs.DetachNetworkEndpoints(ctx, &computepb.DetachNetworkEndpointsNetworkEndpointGroupRequest{
		Project: g.api.Project, Zone: g.api.Zone, NetworkEndpointGroup: g.name,
		NetworkEndpointGroupsDetachEndpointsRequestResource: &computepb.NetworkEndpointGroupsDetachEndpointsRequest{
			NetworkEndpoints: []*computepb.NetworkEndpoint{{
				Instance: endpoint.Instance, IpAddress: endpoint.IpAddress, Port: endpoint.Port,
			}},
		},
	})
	return outcome(ctx, g.api, opDeregister, running, err)
}

// outcome waits for a change that has begun, or says why it has not.
func outcome(ctx context.Context, a *api.Client, op string, running *compute.Operation, err error) error {
	if err != nil {
		return api.Fail(op, api.Writes, err)
	}
	return a.Finish(ctx, op, running.Proto())
}
