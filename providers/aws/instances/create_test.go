package instances

import (
	"reflect"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/server/driver"
)

const testID = "knc068a3cp3thz5z2mv1gejwftabc"

func testRequest() driver.CreateRequest {
	return driver.CreateRequest{
		InstanceID: testID, Owner: driver.Owner{Cluster: "c", Shard: "us-east-1a"},
		Tenant: "default", Group: "web", Template: "worker", Kind: "knc", Arch: "arm64",
		InstanceType: "t4g.small", SubnetID: "subnet-1", UserData: []byte("#!/bin/sh\n"),
		CreatedAt: time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("", 3600)),
	}
}

func testTags(first ...types.Tag) []types.Tag {
	return append(first,
		tag("nstance:managed", "true"), tag("nstance:cluster-id", "c"), tag("nstance:shard", "us-east-1a"),
		tag("nstance:instance-id", testID), tag("nstance:tenant", "default"), tag("nstance:group", "web"),
		tag("nstance:template", "worker"), tag("nstance:kind", "knc"), tag("nstance:created-at", "2026-03-04T04:06:07Z"))
}

func TestLaunchOfARequest(t *testing.T) {
	req := testRequest()
	req.Args = map[string]any{"ImageId": "ami-1"}
	got, err := launch(req)
	named := testTags(tag("Name", testID))
	want := &ec2.RunInstancesInput{
		ClientToken: sdk.String(testID), MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1),
		InstanceType: "t4g.small", SubnetId: sdk.String("subnet-1"), ImageId: sdk.String("ami-1"),
		UserData: sdk.String("IyEvYmluL3NoCg=="),
		TagSpecifications: []types.TagSpecification{
			{ResourceType: "instance", Tags: named}, {ResourceType: "volume", Tags: named}, {ResourceType: "network-interface", Tags: named},
		},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("launch: %s, %v", asJSON(got), err)
	}
}

// The subnet goes where EC2 takes it.
func TestLaunchWithInterfaces(t *testing.T) {
	req := testRequest()
	req.Args = object(t, `{"NetworkInterfaces": [{"DeviceIndex": 0, "Ipv6AddressCount": 1}, {"DeviceIndex": 1, "NetworkInterfaceId": "eni-1"}]}`)
	in, err := launch(req)
	if err != nil {
		t.Fatal(err)
	}
	want := []types.InstanceNetworkInterfaceSpecification{
		{DeviceIndex: sdk.Int32(0), Ipv6AddressCount: sdk.Int32(1), SubnetId: sdk.String("subnet-1")},
		{DeviceIndex: sdk.Int32(1), NetworkInterfaceId: sdk.String("eni-1")},
	}
	if in.SubnetId != nil || !reflect.DeepEqual(in.NetworkInterfaces, want) {
		t.Errorf("interfaces: %s, subnet of the call %v", asJSON(in.NetworkInterfaces), in.SubnetId)
	}
}

// Tags of the arguments stay, and one of each kind of resource is sent: EC2 refuses
// two.
func TestTagsOfTheArgumentsStay(t *testing.T) {
	req := testRequest()
	req.Args = object(t, `{"TagSpecifications": [
		{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": "a"}]},
		{"ResourceType": "spot-instances-request", "Tags": [{"Key": "team", "Value": "b"}]},
		{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "web"}]}
	]}`)
	in, err := launch(req)
	named := testTags(tag("Name", testID))
	want := []types.TagSpecification{
		{ResourceType: "instance", Tags: testTags(tag("team", "a"), tag("Name", "web"))},
		{ResourceType: "spot-instances-request", Tags: []types.Tag{tag("team", "b")}},
		{ResourceType: "volume", Tags: named},
		{ResourceType: "network-interface", Tags: named},
	}
	if err != nil || !reflect.DeepEqual(in.TagSpecifications, want) {
		t.Errorf("tags: %s, %v", asJSON(in.TagSpecifications), err)
	}
}

// F19: EC2 takes a repeated call for the same one only if all of it is the same.
func TestF19_EqualRequestsMakeEqualCalls(t *testing.T) {
	long := testRequest()
	long.UserData = []byte("#!/bin/sh\n" + strings.Repeat("echo hello\n", 4000))
	long.Args = object(t, `{"ImageId": "ami-1", "KeyName": "k", "SecurityGroupIds": ["sg-1"], "MetadataOptions": {"HttpTokens": "required"}}`)
	first, err := launch(long)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if again, err := launch(long); err != nil || !reflect.DeepEqual(first, again) {
			t.Fatalf("%v, %s and then %s", err, asJSON(first), asJSON(again))
		}
	}
}

// TestLaunchIsPaidForAsAsked: how, the request says alone.
func TestLaunchIsPaidForAsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		capacity    driver.CapacityType
		reservation string
		args        map[string]any
		market      *types.InstanceMarketOptionsRequest
		target      string
		refused     bool
	}{
		"as the arguments say": {},
		"on demand":            {capacity: driver.OnDemand},
		"spot": {capacity: driver.Spot, market: &types.InstanceMarketOptionsRequest{
			MarketType: "spot", SpotOptions: &types.SpotMarketOptions{SpotInstanceType: "one-time", InstanceInterruptionBehavior: "terminate"},
		}},
		"reserved":                       {capacity: driver.Reserved, reservation: "cr-1", target: "cr-1"},
		"bare metal":                     {capacity: driver.BareMetal, refused: true},
		"spot, where arguments say more": {capacity: driver.Spot, args: object(t, `{"InstanceMarketOptions": {"MarketType": "spot"}}`), refused: true},
		"two reservations": {
			capacity: driver.Reserved, reservation: "cr-1", refused: true,
			args: object(t, `{"CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": "cr-2"}}}`),
		},
	} {
		req := testRequest()
		req.Args, req.CapacityType, req.Reservation = c.args, c.capacity, c.reservation
		in, err := launch(req)
		if c.refused || err != nil {
			if !c.refused || err == nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		target := ""
		if s := in.CapacityReservationSpecification; s != nil {
			target = sdk.ToString(s.CapacityReservationTarget.CapacityReservationId)
		}
		if !reflect.DeepEqual(in.InstanceMarketOptions, c.market) || target != c.target {
			t.Errorf("%s: market %s, reservation %q", name, asJSON(in.InstanceMarketOptions), target)
		}
	}
}
