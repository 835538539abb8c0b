package leader

import (
	"net"
	"net/netip"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestLowestFreeDevice(t *testing.T) {
	for want, used := range map[int32][]int32{1: {}, 2: {0, 1}, 3: {2, 0, 1, 4}} { // 0 is the instance's own
		if got := lowestFree(used); got != want {
			t.Errorf("of %v: %d, want %d", used, got, want)
		}
	}
}

// Addresses are compared as such, however they are written.
func TestInterfaceCarriesItsAddresses(t *testing.T) {
	n := types.NetworkInterface{
		PrivateIpAddresses: []types.NetworkInterfacePrivateIpAddress{{PrivateIpAddress: sdk.String("10.0.0.5")}},
		Ipv6Addresses:      []types.NetworkInterfaceIpv6Address{{Ipv6Address: sdk.String("2001:db8::5")}},
	}
	for ip, want := range map[string]bool{"10.0.0.5": true, "2001:db8:0::5": true, "10.0.0.50": false, "": false} {
		if got := hasAddress(n, ip); got != want {
			t.Errorf("%q: %t, want %t", ip, got, want)
		}
		of := &net.IPNet{IP: net.ParseIP("10.0.0.5"), Mask: net.CIDRMask(24, 32)}
		if a, err := netip.ParseAddr(ip); isAddress(of, ip) != (err == nil && a.Is4() && want) {
			t.Errorf("%q is taken for the address of an interface with %s, or not", ip, of)
		}
	}
}

func TestStatesOfAnAttachment(t *testing.T) {
	at := func(status types.AttachmentStatus) types.NetworkInterface {
		return types.NetworkInterface{Attachment: &types.NetworkInterfaceAttachment{InstanceId: sdk.String("i-1"), Status: status}}
	}
	for name, c := range map[string]struct {
		n                 types.NetworkInterface
		holder            string
		leaving, attached bool
	}{
		"nowhere":    {types.NetworkInterface{}, "", false, false},
		"on its way": {at(types.AttachmentStatusAttaching), "i-1", false, false},
		"there":      {at(types.AttachmentStatusAttached), "i-1", false, true},
		"going":      {at(types.AttachmentStatusDetaching), "i-1", true, false},
	} {
		if holder(c.n) != c.holder || leaving(c.n) != c.leaving || attachedTo(c.n, "i-1") != c.attached || attachedTo(c.n, "i-2") {
			t.Errorf("%s: holder %q, leaving %t, attached %t", name, holder(c.n), leaving(c.n), attachedTo(c.n, "i-1"))
		}
	}
}
