package gcpfake

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"cloud.google.com/go/compute/apiv1/computepb"
)

// Subnet is a subnet of the region. Of its primary range the service keeps four
// addresses: the first two and the last two.
// https://docs.cloud.google.com/vpc/docs/subnets#unusable-ip-addresses-in-every-subnet
type Subnet struct {
	Name      string
	Network   string            // of the project
	Range     string            // the primary range: 10.0.0.0/24
	Secondary map[string]string // secondary ranges by name, for alias addresses
}

// DefaultSubnet is the subnet of a cloud without others.
var DefaultSubnet = Subnet{Name: "nstance", Network: "nstance", Range: "10.0.0.0/24"}

// subnet is a subnet at work.
type subnet struct {
	Subnet
	prefix    netip.Prefix
	secondary map[string]netip.Prefix
	used      map[netip.Prefix]*instance // addresses and alias ranges
}

// newSubnet panics where the options are no subnet: they are part of a test.
func newSubnet(s Subnet) *subnet {
	n := &subnet{Subnet: s, prefix: netip.MustParsePrefix(s.Range).Masked(), secondary: map[string]netip.Prefix{}, used: map[netip.Prefix]*instance{}}
	for name, text := range s.Secondary {
		n.secondary[name] = netip.MustParsePrefix(text).Masked()
	}
	return n
}

func (s *subnet) path(c *Cloud) string { return "regions/" + c.opts.Region + "/subnetworks/" + s.Name }

// free returns the lowest address of the primary range that nobody has.
func (s *subnet) free() (netip.Addr, bool) {
	for addr := s.prefix.Addr(); s.prefix.Contains(addr); addr = addr.Next() {
		if s.usable(addr) && s.holder(single(addr)) == nil {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// usable reports whether an address of the primary range may be had at all.
func (s *subnet) usable(addr netip.Addr) bool {
	if !s.prefix.Contains(addr) {
		return false
	}
	base := s.prefix.Addr().As4()
	at := addr.As4()
	offset := binary.BigEndian.Uint32(at[:]) - binary.BigEndian.Uint32(base[:])
	size := uint32(1) << (32 - s.prefix.Bits())
	return offset >= 2 && offset < size-2
}

func single(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr, addr.BitLen()) }

// holder returns the machine that has an address of the range, else nil.
func (s *subnet) holder(of netip.Prefix) *instance {
	if i := s.used[of]; i != nil {
		return i
	}
	for taken, i := range s.used {
		if taken.Overlaps(of) {
			return i
		}
	}
	return nil
}

// release gives up all that a machine has.
func (s *subnet) release(of *instance) {
	for taken, i := range s.used {
		if i == of {
			delete(s.used, taken)
		}
	}
}

// inUse is the failure of a change that wants what another one has.
func inUse(of string) *failure {
	return &failure{http.StatusBadRequest, addressUsed, fmt.Sprintf("IP '%s' is already being used by another resource.", of)}
}

// subnetOf finds the subnet that an interface names: by itself, or as the only one of
// its network.
func (c *Cloud) subnetOf(nic *computepb.NetworkInterface, field string) (*subnet, error) {
	if nic.GetSubnetwork() == "" && nic.GetNetwork() == "" {
		return nil, badRequest("Invalid value for field '%s': ''. At least one of network or subnetwork must be specified.", field)
	}
	if ref := nic.GetSubnetwork(); ref != "" {
		project, path := c.below(ref)
		name, ok := strings.CutPrefix(path, "regions/"+c.opts.Region+"/subnetworks/")
		if !ok && strings.Contains(path, "/subnetworks/") {
			return nil, invalidField(field+".subnetwork", ref, "The subnetwork is not in the region of the instance.")
		}
		if s := c.subnets[name]; ok && s != nil && project == c.opts.Project {
			return s, nil
		}
		return nil, invalidField(field+".subnetwork", ref, "The referenced subnetwork resource cannot be found.")
	}
	_, path := c.below(nic.GetNetwork())
	var found *subnet
	for _, s := range c.subnets {
		if path != "global/networks/"+s.Network {
			continue
		}
		if found != nil {
			return nil, invalidField(field+".subnetwork", "", "Subnetwork should be specified for custom subnetmode network.")
		}
		found = s
	}
	if found == nil {
		return nil, invalidField(field+".network", nic.GetNetwork(), "The referenced network resource cannot be found.")
	}
	return found, nil
}
