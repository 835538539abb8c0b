package awsfake

import (
	"encoding/base64"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

func TestAMachineLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Boot: 20 * time.Second, End: 40 * time.Second, Linger: time.Hour})
		vm := c.client()
		made := run(t, vm, launchOf("one", func(in *ec2.RunInstancesInput) {
			in.Ipv6AddressCount = aws.Int32(1)
			in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot}
		}))
		id := *made.InstanceId
		show := func() types.Instance { return described(t, vm, only(id))[id] }
		if made.State.Name != pending || show().State.Name != pending {
			t.Errorf("a new machine is %s, and shows as %s", made.State.Name, show().State.Name)
		}
		time.Sleep(20 * time.Second)
		got := show()
		if got.State.Name != running || *got.State.Code != 16 || *got.ClientToken != "one" || got.InstanceType != small ||
			*got.SubnetId != subnetA || *got.ImageId != imageOf || *got.PrivateIpAddress != "10.0.0.4" ||
			*got.Ipv6Address != "2001:db8:0:a::4" || got.InstanceLifecycle != types.InstanceLifecycleTypeSpot ||
			got.Architecture != types.ArchitectureValuesArm64 || *got.PrivateDnsName != "ip-10-0-0-4.ec2.internal" ||
			!got.LaunchTime.Equal(*made.LaunchTime) || *got.Tags[0].Key != "of" || *got.Tags[0].Value != "one" ||
			*got.NetworkInterfaces[0].PrivateIpAddress != "10.0.0.4" || *got.Placement.AvailabilityZone != "us-east-1a" {
			t.Errorf("a machine that runs shows as %+v", got)
		}
		if truth := c.Machines(); len(truth) != 1 || string(truth[0].UserData) != "#!/bin/sh\n" || truth[0].Token != "one" {
			t.Errorf("the truth is %+v", truth)
		}
		if err := terminate(t.Context(), vm, id); err != nil {
			t.Fatal(err)
		}
		if got := show(); got.State.Name != ending || *got.StateReason.Code != "Client.UserInitiatedShutdown" {
			t.Errorf("a machine that was terminated shows as %+v", got)
		}
		time.Sleep(40 * time.Second)
		if got := show(); got.State.Name != terminated || got.PrivateIpAddress != nil || len(got.Tags) == 0 {
			t.Errorf("a machine that has ended shows as %+v", got)
		}
		if err := terminate(t.Context(), vm, id); err != nil {
			t.Errorf("terminate again: %v", err)
		}
		time.Sleep(time.Hour)
		_, err := vm.DescribeInstances(t.Context(), only(id))
		wantCode(t, "describe an hour later", err, "InvalidInstanceID.NotFound")
		wantCode(t, "terminate an hour later", terminate(t.Context(), vm, id), "InvalidInstanceID.NotFound")
	})
}

func TestClientToken(t *testing.T) {
	c := New(Options{})
	vm := c.client()
	first := run(t, vm, launchOf("token"))
	again := run(t, vm, launchOf("token"))
	if *again.InstanceId != *first.InstanceId || len(c.Machines()) != 1 {
		t.Errorf("a repeated launch made %s and %s", *first.InstanceId, *again.InstanceId)
	}
	_, err := vm.RunInstances(t.Context(), launchOf("token", func(in *ec2.RunInstancesInput) { in.UserData = nil }))
	wantCode(t, "the token with another request", err, "IdempotentParameterMismatch")
	if other := run(t, vm, launchOf("other")); *other.InstanceId == *first.InstanceId {
		t.Error("another token has the same machine")
	}
	if err := terminate(t.Context(), vm, *first.InstanceId); err != nil {
		t.Fatal(err)
	}
	_, err = vm.RunInstances(t.Context(), launchOf("token"))
	wantCode(t, "the token of a machine that has ended", err, "IdempotentInstanceTerminated")
	_, err = vm.RunInstances(t.Context(), launchOf(strings.Repeat("x", 65)))
	wantCode(t, "a token of 65 characters", err, "InvalidParameterValue")
}

func TestBadLaunches(t *testing.T) {
	text := func(s string) *string { return &s }
	tags := func(key, value string) func(*ec2.RunInstancesInput) {
		return func(in *ec2.RunInstancesInput) {
			in.TagSpecifications[0].Tags = []types.Tag{{Key: &key, Value: &value}}
		}
	}
	tests := []struct {
		name   string
		change func(*ec2.RunInstancesInput)
		want   string
	}{
		{"no image", func(in *ec2.RunInstancesInput) { in.ImageId = nil }, "MissingParameter"},
		{"a malformed image", func(in *ec2.RunInstancesInput) { in.ImageId = text("debian") }, "InvalidAMIID.Malformed"},
		{"an unknown image", func(in *ec2.RunInstancesInput) { in.ImageId = text("ami-00000000000000000") }, "InvalidAMIID.NotFound"},
		{"no type", func(in *ec2.RunInstancesInput) { in.InstanceType = "" }, "MissingParameter"},
		{"an unknown type", func(in *ec2.RunInstancesInput) { in.InstanceType = "t9.huge" }, "InvalidParameterValue"},
		{"a type of another architecture", func(in *ec2.RunInstancesInput) { in.InstanceType = "t3.small" }, "InvalidParameterValue"},
		{"no subnet", func(in *ec2.RunInstancesInput) { in.SubnetId = nil }, "VPCIdNotSpecified"},
		{"an unknown subnet", func(in *ec2.RunInstancesInput) { in.SubnetId = text("subnet-1") }, "InvalidSubnetID.NotFound"},
		{"an unknown security group", func(in *ec2.RunInstancesInput) { in.SecurityGroupIds = []string{"sg-1"} }, "InvalidGroup.NotFound"},
		{"an unknown key pair", func(in *ec2.RunInstancesInput) { in.KeyName = text("mine") }, "InvalidKeyPair.NotFound"},
		{"an unknown instance profile", func(in *ec2.RunInstancesInput) { in.IamInstanceProfile.Name = text("root") }, "InvalidParameterValue"},
		{"a subnet beside a network interface", func(in *ec2.RunInstancesInput) {
			in.NetworkInterfaces = []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), SubnetId: text(subnetA)}}
		}, "InvalidParameterCombination"},
		{"a zone that is not the subnet's", func(in *ec2.RunInstancesInput) {
			in.Placement = &types.Placement{AvailabilityZone: text("us-east-1b")}
		}, "InvalidParameterValue"},
		{"user data that is not base64", func(in *ec2.RunInstancesInput) { in.UserData = text("#!/bin/sh") }, "InvalidUserData.Malformed"},
		{"too much user data", func(in *ec2.RunInstancesInput) {
			in.UserData = text(base64.StdEncoding.EncodeToString(make([]byte, 16385)))
		}, "InvalidParameterValue"},
		{"a device without a name", func(in *ec2.RunInstancesInput) {
			in.BlockDeviceMappings = []types.BlockDeviceMapping{{Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(8)}}}
		}, "MissingParameter"},
		{"a tag of AWS", tags("aws:name", "x"), "InvalidParameterValue"},
		{"a tag that is too long", tags("name", strings.Repeat("x", 257)), "InvalidParameterValue"},
		{"tags of what is not made", func(in *ec2.RunInstancesInput) { in.TagSpecifications[0].ResourceType = "subnet" }, "InvalidParameterValue"},
		{"fewer than one", func(in *ec2.RunInstancesInput) { in.MinCount = aws.Int32(0) }, "InvalidParameterValue"},
		{"too low a price", spotFor("0.001"), "SpotMaxPriceTooLow"},
		{"a price that is no number", spotFor("little"), "InvalidParameterValue"},
		{"a dry run", func(in *ec2.RunInstancesInput) { in.DryRun = aws.Bool(true) }, "DryRunOperation"},
	}
	c := New(Options{})
	vm := c.client()
	for _, test := range tests {
		_, err := vm.RunInstances(t.Context(), launchOf("", test.change))
		wantCode(t, test.name, err, test.want)
	}
	if made := c.Machines(); len(made) > 0 {
		t.Errorf("refused launches made %+v", made)
	}
}

func spotFor(price string) func(*ec2.RunInstancesInput) {
	return func(in *ec2.RunInstancesInput) {
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{
			MarketType: types.MarketTypeSpot, SpotOptions: &types.SpotMarketOptions{MaxPrice: &price},
		}
	}
}

func TestLaunchesThatComeToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Boot: 10 * time.Second, Run: func(Machine) (func(), error) {
			t.Error("a machine that never ran was started")
			return func() {}, nil
		}})
		defer c.Close()
		vm := c.client()
		c.Doom(1)
		id := *run(t, vm, launchOf("doomed")).InstanceId
		if got := described(t, vm, only(id))[id].State.Name; got != pending {
			t.Errorf("at first it is %s", got)
		}
		time.Sleep(10 * time.Second)
		if got := described(t, vm, only(id))[id]; got.State.Name != terminated || *got.StateReason.Code != "Server.InternalError" {
			t.Errorf("then it is %s: %+v", got.State.Name, got.StateReason)
		}
		_, err := vm.RunInstances(t.Context(), launchOf("doomed"))
		wantCode(t, "its token", err, "IdempotentInstanceTerminated")
	})
}

func TestNetworkInterfaceCarriesTheSubnet(t *testing.T) {
	got := run(t, New(Options{}).client(), launchOf("one", func(in *ec2.RunInstancesInput) {
		in.SubnetId = nil
		in.NetworkInterfaces = []types.InstanceNetworkInterfaceSpecification{{
			DeviceIndex: aws.Int32(0), SubnetId: aws.String(subnetB), Groups: []string{"sg-0a11000000000002"}, Ipv6AddressCount: aws.Int32(1),
		}}
	}))
	if *got.SubnetId != subnetB || *got.SecurityGroups[0].GroupId != "sg-0a11000000000002" || aws.ToString(got.Ipv6Address) == "" {
		t.Errorf("launched %+v", got)
	}
}

func TestRoomRunsOut(t *testing.T) {
	c := New(Options{})
	vm := c.client()
	launch := func(token string, changes ...func(*ec2.RunInstancesInput)) error {
		_, err := vm.RunInstances(t.Context(), launchOf(token, changes...))
		return err
	}
	c.SetRoom(Place{subnetA, string(small)}, 1)
	if err := launch("fits"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "a launch without room", launch("full"), "InsufficientInstanceCapacity")
	if err := launch("elsewhere", func(in *ec2.RunInstancesInput) { in.SubnetId = aws.String(subnetB) }); err != nil {
		t.Errorf("another subnet: %v", err)
	}
	if err := launch("other type", func(in *ec2.RunInstancesInput) { in.InstanceType = types.InstanceTypeT4gNano }); err != nil {
		t.Errorf("another type: %v", err)
	}
	c.SetRoom(Place{subnetA, string(small)}, -1)
	if err := launch("full"); err != nil {
		t.Errorf("with room again: %v", err)
	}
	c.SetQuota(9)
	wantCode(t, "a launch over the quota", launch("quota"), "VcpuLimitExceeded")
	c.SetQuota(10)
	if err := launch("quota"); err != nil {
		t.Errorf("with a larger quota: %v", err)
	}
}

func TestThrottling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Enforce: true})
		vm := c.client()
		sent := func(n int) (made int) {
			for i := range n {
				_, err := vm.RunInstances(t.Context(), launchOf(time.Now().String()+string(rune('a'+i))))
				if err == nil {
					made++
				} else {
					wantCode(t, "a launch over the rate", err, "RequestLimitExceeded")
				}
			}
			return made
		}
		if made := sent(8); made != 5 {
			t.Errorf("%d launches at once, want the bucket of 5", made)
		}
		time.Sleep(2 * time.Second)
		if made := sent(8); made != 4 {
			t.Errorf("%d launches after 2s, want 2 a second", made)
		}
		if _, err := vm.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{}); err != nil {
			t.Errorf("describe has a bucket of its own: %v", err)
		}
	})
}

func TestFaults(t *testing.T) {
	kinds := map[driver.ErrorClass]string{
		driver.Throttled: "RequestLimitExceeded", driver.Capacity: "InsufficientInstanceCapacity", driver.Quota: "VcpuLimitExceeded",
		driver.Invalid: "InvalidParameterValue", driver.Auth: "UnauthorizedOperation", driver.MissingRef: "InvalidSubnetID.NotFound",
		driver.Transient: "Unavailable", driver.Ambiguous: "InternalError", driver.NotFound: "InvalidInstanceID.NotFound",
		driver.Unsupported: "UnsupportedOperation",
	}
	for kind, want := range kinds {
		for _, after := range []bool{false, true} {
			c := New(Options{})
			c.Gate().SetFaults(wire.Times(1, "RunInstances", wire.Fault{Kind: kind, After: after}))
			vm := c.client()
			_, err := vm.RunInstances(t.Context(), launchOf("one"))
			wantCode(t, "a fault of kind "+string(kind), err, want)
			if made := len(c.Machines()); (made == 1) != after {
				t.Errorf("%s, after %v: %d machines", kind, after, made)
			}
			run(t, vm, launchOf("one"))
			if made := len(c.Machines()); made != 1 {
				t.Errorf("%s, after %v, tried again: %d machines", kind, after, made)
			}
		}
	}
}

func TestLostAnswer(t *testing.T) {
	c := New(Options{})
	c.Gate().SetFaults(wire.Times(1, "RunInstances", wire.Fault{Lost: true}))
	vm := c.client()
	if _, err := vm.RunInstances(t.Context(), launchOf("one")); err == nil || code(err) != "" {
		t.Errorf("a lost answer is %v", err)
	}
	got := run(t, vm, launchOf("one"))
	if made := c.Machines(); len(made) != 1 || made[0].ID != *got.InstanceId {
		t.Errorf("a launch with a lost answer and its repetition made %+v", made)
	}
	if calls := c.Gate().Calls(); calls[0].Op != "RunInstances" || calls[0].Key != "one" {
		t.Errorf("the gate noted %+v", calls)
	}
}
