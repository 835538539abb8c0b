package gcp

import (
	"context"
	"errors"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/iterator"
)

// instanceGroup is an unmanaged instance group of the zone. Its members are
// machines, each once.
type instanceGroup struct {
	d    *Driver
	name string
}

func (g instanceGroup) members(ctx context.Context, op string) ([]member, error) {
	var found []member
	it := g.d.api.groups.ListInstances(ctx, &computepb.ListInstancesInstanceGroupsRequest{
		Project: g.d.project, Zone: g.d.zone, InstanceGroup: g.name, MaxResults: new(uint32(pageSize)),
		InstanceGroupsListInstancesRequestResource: &computepb.InstanceGroupsListInstancesRequest{},
	})
	for {
		m, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return found, nil
		}
		if err != nil {
			return nil, fail(op, reads, err)
		}
		name := baseName(m.GetInstance())
		found = append(found, member{name: name, out: func(ctx context.Context) error { return g.remove(ctx, name) }})
	}
}

func (g instanceGroup) add(ctx context.Context, name string) error {
	running, err := g.d.api.groups.AddInstances(ctx, &computepb.AddInstancesInstanceGroupRequest{
		Project: g.d.project, Zone: g.d.zone, InstanceGroup: g.name,
		InstanceGroupsAddInstancesRequestResource: &computepb.InstanceGroupsAddInstancesRequest{Instances: g.reference(name)},
	})
	if err != nil && reasonOf(err) == reasonMember {
		return nil
	}
	return g.d.outcome(ctx, opRegister, running, err)
}

func (g instanceGroup) remove(ctx context.Context, name string) error {
	running, err := g.d.api.groups.RemoveInstances(ctx, &computepb.RemoveInstancesInstanceGroupRequest{
		Project: g.d.project, Zone: g.d.zone, InstanceGroup: g.name,
		InstanceGroupsRemoveInstancesRequestResource: &computepb.InstanceGroupsRemoveInstancesRequest{Instances: g.reference(name)},
	})
	return g.d.outcome(ctx, opDeregister, running, err)
}

func (g instanceGroup) reference(name string) []*computepb.InstanceReference {
	return []*computepb.InstanceReference{{Instance: new(g.d.zonal("instances", name))}}
}

// endpointGroup is a zonal network endpoint group. A machine is in it with its
// primary address and the group's default port; somebody may have put it there
// with other ports, and all of them are taken out.
type endpointGroup struct {
	d    *Driver
	name string
}

func (g endpointGroup) members(ctx context.Context, op string) ([]member, error) {
	var found []member
	it := g.d.api.negs.ListNetworkEndpoints(ctx, &computepb.ListNetworkEndpointsNetworkEndpointGroupsRequest{
		Project: g.d.project, Zone: g.d.zone, NetworkEndpointGroup: g.name, MaxResults: new(uint32(pageSize)),
		NetworkEndpointGroupsListEndpointsRequestResource: &computepb.NetworkEndpointGroupsListEndpointsRequest{},
	})
	for {
		m, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return found, nil
		}
		if err != nil {
			return nil, fail(op, reads, err)
		}
		endpoint := m.GetNetworkEndpoint()
		found = append(found, member{
			name: baseName(endpoint.GetInstance()),
			out:  func(ctx context.Context) error { return g.detach(ctx, endpoint) },
		})
	}
}

func (g endpointGroup) add(ctx context.Context, name string) error {
	running, err := g.d.api.negs.AttachNetworkEndpoints(ctx, &computepb.AttachNetworkEndpointsNetworkEndpointGroupRequest{
		Project: g.d.project, Zone: g.d.zone, NetworkEndpointGroup: g.name,
		NetworkEndpointGroupsAttachEndpointsRequestResource: &computepb.NetworkEndpointGroupsAttachEndpointsRequest{
			NetworkEndpoints: []*computepb.NetworkEndpoint{{Instance: &name}},
		},
	})
	return g.d.outcome(ctx, opRegister, running, err)
}

func (g endpointGroup) detach(ctx context.Context, endpoint *computepb.NetworkEndpoint) error {
	running, err := g.d.api.negs.DetachNetworkEndpoints(ctx, &computepb.DetachNetworkEndpointsNetworkEndpointGroupRequest{
		Project: g.d.project, Zone: g.d.zone, NetworkEndpointGroup: g.name,
		NetworkEndpointGroupsDetachEndpointsRequestResource: &computepb.NetworkEndpointGroupsDetachEndpointsRequest{
			NetworkEndpoints: []*computepb.NetworkEndpoint{{
				Instance: endpoint.Instance, IpAddress: endpoint.IpAddress, Port: endpoint.Port,
			}},
		},
	})
	return g.d.outcome(ctx, opDeregister, running, err)
}

// outcome waits for a change that has begun, or says why it has not.
func (d *Driver) outcome(ctx context.Context, op string, running *compute.Operation, err error) error {
	if err != nil {
		return fail(op, writes, err)
	}
	return d.finish(ctx, op, running.Proto())
}
