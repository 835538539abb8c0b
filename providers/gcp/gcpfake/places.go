package gcpfake

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

func (c *Cloud) getZone(_ call, in *computepb.GetZoneRequest) (*computepb.Zone, error) {
	if err := c.inProject(in.GetProject()); err != nil {
		return nil, err
	}
	if !slices.Contains(c.opts.Zones, in.GetZone()) {
		return nil, notFound(c.path("zones/" + in.GetZone()))
	}
	return c.zone(in.GetZone()), nil
}

func (c *Cloud) listZones(_ call, in *computepb.ListZonesRequest) (*computepb.ZoneList, error) {
	if err := c.inProject(in.GetProject()); err != nil {
		return nil, err
	}
	var all []*computepb.Zone
	for _, name := range c.opts.Zones {
		all = append(all, c.zone(name))
	}
	items, next, err := paged(c, all, in)
	return &computepb.ZoneList{Kind: new("compute#zoneList"), Items: items, NextPageToken: next}, err
}

func (c *Cloud) zone(name string) *computepb.Zone {
	return &computepb.Zone{Kind: new("compute#zone"), Name: &name, Status: new("UP"),
		Region: new(c.link("regions/" + c.opts.Region)), SelfLink: new(c.link("zones/" + name))}
}

func (c *Cloud) getMachineType(_ call, in *computepb.GetMachineTypeRequest) (*computepb.MachineType, error) {
	if err := c.inZone(in.GetProject(), in.GetZone()); err != nil {
		return nil, err
	}
	for _, t := range c.opts.Types {
		if t.Name == in.GetMachineType() {
			return c.machineType(in.GetZone(), t), nil
		}
	}
	return nil, notFound(c.path("zones/" + in.GetZone() + "/machineTypes/" + in.GetMachineType()))
}

func (c *Cloud) listMachineTypes(_ call, in *computepb.ListMachineTypesRequest) (*computepb.MachineTypeList, error) {
	if err := c.inZone(in.GetProject(), in.GetZone()); err != nil {
		return nil, err
	}
	var all []*computepb.MachineType
	for _, t := range c.opts.Types {
		all = append(all, c.machineType(in.GetZone(), t))
	}
	items, next, err := paged(c, all, in)
	return &computepb.MachineTypeList{Kind: new("compute#machineTypeList"), Items: items, NextPageToken: next}, err
}

func (c *Cloud) machineType(zone string, t MachineType) *computepb.MachineType {
	m := &computepb.MachineType{
		Kind: new("compute#machineType"), Name: &t.Name, Architecture: &t.Arch, IsSharedCpu: &t.Shared, Zone: &zone,
		GuestCpus: proto.Int32(int32(t.CPUs)), MemoryMb: proto.Int32(int32(t.MemoryMB)), //nolint:gosec // small numbers
		Description: new(fmt.Sprintf("%d vCPUs, %d MB RAM", t.CPUs, t.MemoryMB)),
		SelfLink:    new(c.link("zones/" + zone + "/machineTypes/" + t.Name)),
	}
	if t.GPUs > 0 {
		m.Accelerators = []*computepb.Accelerators{{GuestAcceleratorType: &t.GPU, GuestAcceleratorCount: proto.Int32(int32(t.GPUs))}} //nolint:gosec // small numbers
	}
	return m
}

// withUtilization is the view of a subnet that says how full it is.
const withUtilization = "WITH_UTILIZATION"

func (c *Cloud) getSubnetwork(_ call, in *computepb.GetSubnetworkRequest) (*computepb.Subnetwork, error) {
	if err := c.inRegion(in.GetProject(), in.GetRegion()); err != nil {
		return nil, err
	}
	switch in.GetViews() {
	case "", "DEFAULT", withUtilization:
	default:
		return nil, invalidField("views", in.GetViews(), "The value is not one of DEFAULT, WITH_UTILIZATION.")
	}
	s := c.subnets[in.GetSubnetwork()]
	if s == nil {
		return nil, notFound(c.path("regions/" + in.GetRegion() + "/subnetworks/" + in.GetSubnetwork()))
	}
	return c.subnetwork(s, in.GetViews() == withUtilization), nil
}

func (c *Cloud) listSubnetworks(_ call, in *computepb.ListSubnetworksRequest) (*computepb.SubnetworkList, error) {
	if err := c.inRegion(in.GetProject(), in.GetRegion()); err != nil {
		return nil, err
	}
	var all []*computepb.Subnetwork
	for _, s := range c.subnets {
		all = append(all, c.subnetwork(s, false))
	}
	items, next, err := paged(c, all, in)
	return &computepb.SubnetworkList{Kind: new("compute#subnetworkList"), Items: items, NextPageToken: next}, err
}

func (c *Cloud) subnetwork(s *subnet, utilization bool) *computepb.Subnetwork {
	n := &computepb.Subnetwork{
		Kind: new("compute#subnetwork"), Name: &s.Name, Purpose: new("PRIVATE"), StackType: new("IPV4_ONLY"),
		IpCidrRange: new(s.prefix.String()), GatewayAddress: new(s.prefix.Addr().Next().String()),
		Network: new(c.link("global/networks/" + s.Network)), Region: new(c.link("regions/" + c.opts.Region)),
		SelfLink: new(c.link(s.path(c))), Fingerprint: new(fingerprint("subnet", s.Range)),
	}
	for _, name := range slices.Sorted(maps.Keys(s.secondary)) {
		prefix := s.secondary[name]
		n.SecondaryIpRanges = append(n.SecondaryIpRanges, &computepb.SubnetworkSecondaryRange{RangeName: &name, IpCidrRange: new(prefix.String())})
	}
	if utilization {
		n.UtilizationDetails = &computepb.SubnetworkUtilizationDetails{Ipv4Utilizations: []*computepb.SubnetworkUtilizationDetailsIPV4Utilization{s.utilization()}}
	}
	return n
}

// utilization is how full the primary range is.
func (s *subnet) utilization() *computepb.SubnetworkUtilizationDetailsIPV4Utilization {
	taken := int64(0)
	for used := range s.used {
		if s.prefix.Contains(used.Addr()) {
			taken += size(used)
		}
	}
	return &computepb.SubnetworkUtilizationDetailsIPV4Utilization{
		RangeName: new(""), TotalAllocatedIp: &taken, TotalFreeIp: new(size(s.prefix) - keptAddresses - taken)}
}

// keptAddresses are those of a primary range that no machine gets.
const keptAddresses = 4

// size is how many addresses a range has.
func size(p netip.Prefix) int64 { return 1 << (p.Addr().BitLen() - p.Bits()) }
