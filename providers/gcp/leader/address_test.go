package leader

import (
	"encoding/json"
	"net/netip"
	"testing"

	compute "cloud.google.com/go/compute/apiv1/computepb"
)

func TestRangeOf(t *testing.T) {
	s := &compute.Subnetwork{IpCidrRange: new("10.0.0.0/24"), SecondaryIpRanges: []*compute.SubnetworkSecondaryRange{
		{RangeName: new("pods"), IpCidrRange: new("10.1.0.0/16")}, {RangeName: new("leaders"), IpCidrRange: new("10.2.0.0/28")},
	}}
	for ip, want := range map[string]struct {
		name string
		ok   bool
	}{"10.0.0.100": {"", true}, "10.2.0.3": {"leaders", true}, "10.3.0.1": {"", false}} {
		if name, ok := rangeOf(s, netip.MustParseAddr(ip)); name != want.name || ok != want.ok {
			t.Errorf("%s is in %q, %t; want %+v", ip, name, ok, want)
		}
	}
}

// The last alias address goes away only if the list is there and empty.
func TestPatchNamesAnEmptyList(t *testing.T) {
	nic := &compute.NetworkInterface{Fingerprint: new("abc="), Name: new("nic0")}
	for want, ranges := range map[string][]*compute.AliasIpRange{
		`{"fingerprint":"abc=","aliasIpRanges":[]}`: nil,
		`{"fingerprint":"abc=","aliasIpRanges":[{"ipCidrRange":"10.0.0.100/32"},{"ipCidrRange":"10.2.0.3/32","subnetworkRangeName":"leaders"}]}`: {
			{IpCidrRange: new("10.0.0.100/32")}, {IpCidrRange: new("10.2.0.3/32"), SubnetworkRangeName: new("leaders")},
		},
	} {
		got, err := json.Marshal(patchOf(nic, ranges))
		if err != nil || string(got) != want {
			t.Errorf("the body is %s, %v; want %s", got, err, want)
		}
	}
}

func TestIsAlias(t *testing.T) {
	ip := netip.MustParseAddr("10.0.0.100")
	for text, want := range map[string]bool{"10.0.0.100/32": true, "10.0.0.100": true, "10.0.0.0/24": false, "": false} {
		if got := isAlias(&compute.AliasIpRange{IpCidrRange: &text}, ip); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}
