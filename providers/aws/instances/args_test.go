package instances

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Object reads arguments as the server does: numbers keep their digits.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestArgsBecomeParametersOfRunInstances(t *testing.T) {
	got, err := decodeArgs(object(t, `{
		"ImageId": "ami-1",
		"EbsOptimized": "true",
		"Ipv6AddressCount": "1",
		"SecurityGroupIds": ["sg-1", "sg-2"],
		"IamInstanceProfile": { "Name": "agent" },
		"BlockDeviceMappings": [ { "DeviceName": "/dev/xvda", "Ebs": { "VolumeSize": 40, "VolumeType": "gp3", "DeleteOnTermination": true } } ],
		"MetadataOptions": { "HttpTokens": "required", "HttpPutResponseHopLimit": 2.0 },
		"InstanceMarketOptions": { "MarketType": "spot", "SpotOptions": { "MaxPrice": "0.05", "ValidUntil": "2026-12-01T00:00:00Z" } },
		"KeyName": null
	}`))
	want := &ec2.RunInstancesInput{
		ImageId:            sdk.String("ami-1"),
		EbsOptimized:       sdk.Bool(true),
		Ipv6AddressCount:   sdk.Int32(1),
		SecurityGroupIds:   []string{"sg-1", "sg-2"},
		IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: sdk.String("agent")},
		BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: sdk.String("/dev/xvda"), Ebs: &types.EbsBlockDevice{
			VolumeSize: sdk.Int32(40), VolumeType: types.VolumeTypeGp3, DeleteOnTermination: sdk.Bool(true),
		}}},
		MetadataOptions: &types.InstanceMetadataOptionsRequest{HttpTokens: types.HttpTokensStateRequired, HttpPutResponseHopLimit: sdk.Int32(2)},
		InstanceMarketOptions: &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot, SpotOptions: &types.SpotMarketOptions{
			MaxPrice: sdk.String("0.05"), ValidUntil: sdk.Time(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)),
		}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("decodeArgs: %v, %v", asJSON(got), err)
	}
}

func asJSON(v any) string {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}
