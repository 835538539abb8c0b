package rules

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"nstance.dev/server/driver"
)

// object reads arguments as the server does: numbers keep their digits.
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

func TestArgsThatAreRefused(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{`{"ImageID": "ami-1"}`, `ImageID: not a parameter of RunInstances; did you mean "ImageId"?`},
		{`{"Image": "ami-1"}`, `Image: not a parameter of RunInstances; it may be MaxCount, MinCount, `},
		{`{"ResultMetadata": {}}`, `ResultMetadata: not a parameter`},
		{`{"noSmithyDocumentSerde": {}}`, `noSmithyDocumentSerde: not a parameter`},
		{`{"MetadataOptions": {"Tokens": "required"}}`, `MetadataOptions.Tokens: unknown; it may be HttpEndpoint, `},
		{`{"MetadataOptions": {"HttpTokens": "compulsory"}}`, `MetadataOptions.HttpTokens: is "compulsory", must be one of optional, required`},
		{`{"BlockDeviceMappings": [{"DeviceName": "x"}, {"DeviceName": "y", "Ebs": {"VolumeSize": "big"}}]}`,
			`BlockDeviceMappings[1].Ebs.VolumeSize: is "big", must be a whole number`},
		{`{"Ipv6AddressCount": 4294967296}`, `Ipv6AddressCount: is 4294967296, must be a whole number`},
		{`{"Ipv6AddressCount": 1.5}`, `Ipv6AddressCount: is 1.5, must be a whole number`},
		{`{"EbsOptimized": "yes"}`, `EbsOptimized: is "yes", must be true or false`},
		{`{"SecurityGroupIds": "sg-1"}`, `SecurityGroupIds: is "sg-1", must be a list`},
		{`{"IamInstanceProfile": "agent"}`, `IamInstanceProfile: is "agent", must be an object`},
		{`{"ImageId": 7}`, `ImageId: is 7, must be text`},
		{`{"InstanceMarketOptions": {"SpotOptions": {"ValidUntil": "soon"}}}`, `ValidUntil: is "soon", must be a time such as`},
		{`{"InstanceMarketOptions": {"SpotOptions": {"SpotInstanceType": "persistent"}}}`, `must be "one-time"`},
		{`{"NetworkInterfaces": [{"SubnetId": "subnet-1"}]}`, `NetworkInterfaces[0].SubnetId: is set by the server itself`},
		{`{"TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "Nstance:shard", "Value": "x"}]}]}`,
			`TagSpecifications[0].Tags[0].Key: tags that begin with "nstance:" are the server's own`},
		{`{"DisableApiTermination": true}`, `DisableApiTermination: is true`},
	} {
		for name, value := range object(t, c.args) {
			if err := checkArg(name, value); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("checkArg of %s: %v, want %q", c.args, err, c.want)
			}
		}
		if _, err := Parameters(object(t, c.args)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Parameters of %s: %v, want %q", c.args, err, c.want)
		}
	}
}

func TestArgsThatTheServerSets(t *testing.T) {
	for _, name := range forbiddenArgs {
		if _, err := Parameters(map[string]any{name: "x"}); err == nil || !strings.Contains(err.Error(), name+": is set by the server itself") {
			t.Errorf("%s: %v", name, err)
		}
		if _, ok := sdk().objects[runInstances].types[name]; !ok {
			t.Errorf("RunInstances has no parameter %s", name)
		}
	}
}

// Before it is rendered a template stands for anything, and afterwards for what it
// says.
func TestArgsMayBeTemplates(t *testing.T) {
	args := object(t, `{"Ipv6AddressCount": "{{ .Vars.n }}", "EbsOptimized": "{{ .Vars.b }}", "ImageId": "{{ .Image.debian }}",
		"MetadataOptions": {"HttpTokens": "{{ .Vars.t }}"}}`)
	for name, value := range args {
		if err := checkArg(name, value); err != nil {
			t.Errorf("checkArg: %v", err)
		}
	}
	if _, err := Parameters(args); err == nil {
		t.Error("what was not rendered is taken")
	}
}

func TestArgsInDoubt(t *testing.T) {
	err := checkArg("BlockDeviceMappings", object(t, `{"x": [{"Ebs": {"VolumeSize": 40}}]}`)["x"])
	if !errors.Is(err, driver.ErrArgWarning) || !strings.Contains(err.Error(), "BlockDeviceMappings[0] has no DeviceName") {
		t.Errorf("a mapping without a name: %v", err)
	}
}

func TestArgsNameAnImage(t *testing.T) {
	for args, ok := range map[string]bool{
		`{}`:                     false,
		`{"ImageId": null}`:      false,
		`{"ImageId": "ami-1"}`:   true,
		`{"LaunchTemplate": {}}`: true,
	} {
		if err := checkArgs(object(t, args)); (err == nil) != ok {
			t.Errorf("%s: %v", args, err)
		}
	}
}
