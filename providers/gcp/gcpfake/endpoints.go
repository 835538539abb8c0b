package gcpfake

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// endpointGroup is a zonal network endpoint group of type GCE_VM_IP_PORT. A machine
// that is deleted leaves it.
// https://docs.cloud.google.com/compute/docs/reference/rest/v1/networkEndpointGroups
type endpointGroup struct {
	pb      *computepb.NetworkEndpointGroup
	zone    string
	members []endpoint
}

// endpoint is a port of a machine.
type endpoint struct {
	of   *instance
	ip   netip.Addr
	port int32
}

// endpointType is the one type of group that machines with a port of their own have.
const endpointType = "GCE_VM_IP_PORT"

func (g *endpointGroup) below() string {
	return "zones/" + g.zone + "/networkEndpointGroups/" + g.pb.GetName()
}

// AddEndpointGroup makes an empty zonal network endpoint group in the network of the
// first subnet. Without a default port (0) every endpoint has to name one. A name that
// is taken is an error.
func (c *Cloud) AddEndpointGroup(zone, name string, defaultPort int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	pb := &computepb.NetworkEndpointGroup{Name: &name, NetworkEndpointType: new(endpointType), Network: new("global/networks/" + c.opts.Subnets[0].Network)}
	if defaultPort > 0 {
		pb.DefaultPort = proto.Int32(int32(defaultPort)) //nolint:gosec // a port
	}
	_, err := c.newEndpointGroup(zone, pb)
	return err
}

func (c *Cloud) newEndpointGroup(zone string, pb *computepb.NetworkEndpointGroup) (*endpointGroup, error) {
	name := pb.GetName()
	switch {
	case !nameForm.MatchString(name):
		return nil, invalidField("resource.name", name, "Must be a match of regex '%s'", "(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)")
	case pb.GetNetworkEndpointType() != endpointType:
		return nil, invalidField("resource.networkEndpointType", pb.GetNetworkEndpointType(), "This fake knows %s only.", endpointType)
	}
	g := &endpointGroup{pb: proto.CloneOf(pb), zone: zone}
	if c.endpoints[place{zone, name}] != nil {
		return nil, alreadyExists(c.path(g.below()))
	}
	g.pb.Kind, g.pb.Id = new("compute#networkEndpointGroup"), new(c.id())
	g.pb.CreationTimestamp, g.pb.Zone, g.pb.SelfLink = new(stamp(c.now)), new(c.link("zones/"+zone)), new(c.link(g.below()))
	c.endpoints[place{zone, name}] = g
	return g, nil
}

func (c *Cloud) insertEndpointGroup(_ call, in *computepb.InsertNetworkEndpointGroupRequest) (*computepb.Operation, error) {
	if err := c.inZone(in.GetProject(), in.GetZone()); err != nil {
		return nil, err
	}
	return c.once(in.GetRequestId(), func() (*operation, error) {
		g, err := c.newEndpointGroup(in.GetZone(), in.GetNetworkEndpointGroupResource())
		if err != nil {
			return nil, err
		}
		return c.quick(g.zone, "insert", g.below(), g.pb.GetId()), nil
	})
}

func (c *Cloud) endpointGroupOf(project, zone, name string) (*endpointGroup, error) {
	if err := c.inZone(project, zone); err != nil {
		return nil, err
	}
	if g := c.endpoints[place{zone, name}]; g != nil {
		return g, nil
	}
	return nil, notFound(c.path("zones/" + zone + "/networkEndpointGroups/" + name))
}

func (g *endpointGroup) message() *computepb.NetworkEndpointGroup {
	pb := proto.CloneOf(g.pb)
	pb.Size = proto.Int32(int32(len(g.members))) //nolint:gosec // there are few
	return pb
}

func (c *Cloud) getEndpointGroup(_ call, in *computepb.GetNetworkEndpointGroupRequest) (*computepb.NetworkEndpointGroup, error) {
	g, err := c.endpointGroupOf(in.GetProject(), in.GetZone(), in.GetNetworkEndpointGroup())
	if err != nil {
		return nil, err
	}
	return g.message(), nil
}

func (c *Cloud) listEndpointGroups(_ call, in *computepb.ListNetworkEndpointGroupsRequest) (*computepb.NetworkEndpointGroupList, error) {
	if err := c.inZone(in.GetProject(), in.GetZone()); err != nil {
		return nil, err
	}
	var all []*computepb.NetworkEndpointGroup
	for _, g := range c.endpoints {
		if g.zone == in.GetZone() {
			all = append(all, g.message())
		}
	}
	items, next, err := paged(c, all, in)
	return &computepb.NetworkEndpointGroupList{Kind: new("compute#networkEndpointGroupList"), Items: items, NextPageToken: next}, err
}

// read understands endpoints as a request names them. The machine may be named or
// given as a URL; address and port may be left out.
func (g *endpointGroup) read(c *Cloud, wanted []*computepb.NetworkEndpoint) ([]endpoint, error) {
	var all []endpoint
	for n, w := range wanted {
		field := fmt.Sprintf("resource.networkEndpoints[%d]", n)
		if w.GetInstance() == "" {
			return nil, required(field + ".instance")
		}
		_, path := c.below(w.GetInstance())
		name := strings.TrimPrefix(path, "zones/"+g.zone+"/instances/")
		i := c.instances[place{g.zone, name}]
		if i == nil {
			return nil, invalidField(field+".instance", w.GetInstance(), "The referenced instance resource cannot be found in the zone of the network endpoint group.")
		}
		e := endpoint{of: i, ip: c.machine(i).IP, port: w.GetPort()}
		if w.IpAddress != nil {
			var err error
			if e.ip, err = netip.ParseAddr(w.GetIpAddress()); err != nil || i.subnet.holder(single(e.ip)) != i {
				return nil, invalidField("resource.ipAddress", w.GetIpAddress(), "Specified IP address %s doesn't belong to the (sub)network %s or to the instance %s.",
					w.GetIpAddress(), i.subnet.Name, i.pb.GetName())
			}
		}
		if w.Port == nil {
			e.port = g.pb.GetDefaultPort()
		}
		if e.port < 1 || e.port > 65535 {
			return nil, invalidField(field+".port", strconv.Itoa(int(e.port)), "Port must be specified.")
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		return nil, required("resource.networkEndpoints")
	}
	return all, nil
}

// attachEndpoints attaches endpoints; those that are attached stay.
func (c *Cloud) attachEndpoints(_ call, in *computepb.AttachNetworkEndpointsNetworkEndpointGroupRequest) (*computepb.Operation, error) {
	return c.once(in.GetRequestId(), func() (*operation, error) {
		g, err := c.endpointGroupOf(in.GetProject(), in.GetZone(), in.GetNetworkEndpointGroup())
		if err != nil {
			return nil, err
		}
		more, err := g.read(c, in.GetNetworkEndpointGroupsAttachEndpointsRequestResource().GetNetworkEndpoints())
		if err != nil {
			return nil, err
		}
		for _, e := range more {
			if !slices.Contains(g.members, e) {
				g.members = append(g.members, e)
			}
		}
		return c.quick(g.zone, "attachNetworkEndpoints", g.below(), g.pb.GetId()), nil
	})
}

// detachEndpoints detaches endpoints. One that is not attached is refused: the
// reference is silent about it, and a caller must not rely on the milder answer.
func (c *Cloud) detachEndpoints(_ call, in *computepb.DetachNetworkEndpointsNetworkEndpointGroupRequest) (*computepb.Operation, error) {
	return c.once(in.GetRequestId(), func() (*operation, error) {
		g, err := c.endpointGroupOf(in.GetProject(), in.GetZone(), in.GetNetworkEndpointGroup())
		if err != nil {
			return nil, err
		}
		wanted := in.GetNetworkEndpointGroupsDetachEndpointsRequestResource().GetNetworkEndpoints()
		fewer, err := g.read(c, wanted)
		if err != nil {
			return nil, err
		}
		for n, e := range fewer {
			if !slices.Contains(g.members, e) {
				return nil, invalidField(fmt.Sprintf("resource.networkEndpoints[%d]", n), wanted[n].GetInstance(), "The network endpoint is not attached to the group.")
			}
		}
		g.members = slices.DeleteFunc(g.members, func(e endpoint) bool { return slices.Contains(fewer, e) })
		return c.quick(g.zone, "detachNetworkEndpoints", g.below(), g.pb.GetId()), nil
	})
}

func (c *Cloud) listEndpoints(_ call, in *computepb.ListNetworkEndpointsNetworkEndpointGroupsRequest) (*computepb.NetworkEndpointGroupsListNetworkEndpoints, error) {
	g, err := c.endpointGroupOf(in.GetProject(), in.GetZone(), in.GetNetworkEndpointGroup())
	if err != nil {
		return nil, err
	}
	var all []*computepb.NetworkEndpointWithHealthStatus
	for _, e := range g.members {
		all = append(all, &computepb.NetworkEndpointWithHealthStatus{NetworkEndpoint: &computepb.NetworkEndpoint{
			Instance: new(e.of.pb.GetName()), IpAddress: new(e.ip.String()), Port: new(e.port)}})
	}
	items, next, err := pagedBy(c, all, in, func(m *computepb.NetworkEndpointWithHealthStatus) cursor {
		e := m.GetNetworkEndpoint()
		return cursor{Name: fmt.Sprintf("%s %s %05d", e.GetInstance(), e.GetIpAddress(), e.GetPort())}
	})
	return &computepb.NetworkEndpointGroupsListNetworkEndpoints{Kind: new("compute#networkEndpointGroupsListNetworkEndpoints"), Items: items, NextPageToken: next}, err
}
