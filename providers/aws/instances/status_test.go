package instances

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

func TestStatuses(t *testing.T) {
	want := map[types.InstanceStateName]driver.Status{
		"pending": driver.Pending, "running": driver.Running, "stopping": driver.Stopping, "stopped": driver.Stopped,
		"shutting-down": driver.Deleting, "terminated": driver.Deleted,
	}
	for _, name := range types.InstanceStateName("").Values() {
		if got := statusOfState(&types.InstanceState{Name: name}); got != want[name] {
			t.Errorf("%s: %q, want %q", name, got, want[name])
		}
	}
	for _, state := range []*types.InstanceState{nil, {}, {Name: "asleep"}} {
		if got := statusOfState(state); got != driver.Unknown {
			t.Errorf("%+v: %q", state, got)
		}
	}
}

func TestMachineOfAnInstance(t *testing.T) {
	launched, attached := time.Unix(2000, 0), time.Unix(1000, 0)
	i := types.Instance{
		InstanceId: sdk.String("i-1"), ClientToken: sdk.String(testID), State: &types.InstanceState{Name: "running"}, InstanceType: "t4g.small", SubnetId: sdk.String("subnet-1"),
		LaunchTime: &launched, PrivateDnsName: sdk.String("ip-10-0-0-1.ec2.internal"), PrivateIpAddress: sdk.String("10.0.0.1"),
		NetworkInterfaces: []types.InstanceNetworkInterface{{
			Attachment:    &types.InstanceNetworkInterfaceAttachment{AttachTime: &attached, DeviceIndex: sdk.Int32(0)},
			Ipv6Addresses: []types.InstanceIpv6Address{{Ipv6Address: sdk.String("2001:db8::1")}},
		}},
		Tags: testTags(tag("Name", "x")),
	}
	want := driver.Machine{
		InstanceID: testID, RawID: testID, ProviderID: "i-1", Status: driver.Running, CreatedAt: attached,
		Hostname: "ip-10-0-0-1.ec2.internal", IPv4: netip.MustParseAddr("10.0.0.1"), IPv6: netip.MustParseAddr("2001:db8::1"),
		Tenant: "default", Group: "web", Template: "worker", Kind: "knc", SubnetID: "subnet-1", Type: "t4g.small",
	}
	if got := machineOf(i); !reflect.DeepEqual(got, want) {
		t.Errorf("machineOf:\n%+v, want\n%+v", got, want)
	}
	bare := types.Instance{InstanceId: sdk.String("i-2"), LaunchTime: &launched, Tags: []types.Tag{tag("nstance:instance-id", "odd")}}
	if got, want := machineOf(bare), (driver.Machine{RawID: "odd", ProviderID: "i-2", Status: driver.Unknown, CreatedAt: launched}); got != want {
		t.Errorf("machineOf:\n%+v, want\n%+v", got, want)
	}
}

// F29, F35: a copy of a machine, with its tags, is not the machine, and does not
// become it when the machine has ended.
func TestF29_CopiesHaveNoInstanceID(t *testing.T) {
	for token, want := range map[string]identity.ID{
		testID: testID, "": "", "by-hand": "", "knc06bgm7733st2576nx5jht4ecjw": "",
	} {
		got := machineOf(types.Instance{
			InstanceId: sdk.String("i-1"), ClientToken: sdk.String(token), Tags: []types.Tag{tag(identity.TagInstanceID, testID)},
		})
		if got.InstanceID != want || got.RawID != testID {
			t.Errorf("launched with the token %q it is %q (%q), want %q", token, got.InstanceID, got.RawID, want)
		}
	}
}
