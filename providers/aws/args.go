package aws

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/server/driver"
)

// forbiddenArgs are the parameters of RunInstances that the server sets itself,
// and one that would keep it from making anything.
var forbiddenArgs = []string{"ClientToken", "DryRun", "InstanceType", "MaxCount", "MinCount", "SubnetId", "UserData"}

// tenantArgs are the parameters of RunInstances that carry no rights and reach nothing
// but the machine itself. All others name identities, networks, keys, images, disks,
// places, reservations or tags that somebody else's rules go by.
var tenantArgs = []string{
	"CpuOptions", "CreditSpecification", "DisableApiStop", "EbsOptimized", "EnclaveOptions", "HibernationOptions",
	"InstanceInitiatedShutdownBehavior", "InstanceMarketOptions", "MaintenanceOptions", "MetadataOptions", "Monitoring",
	"NetworkPerformanceOptions", "PrivateDnsNameOptions",
}

// checkArg says what is wrong with one argument of a template: a parameter of
// RunInstances by the SDK's name. Text may still be a template. An error that
// wraps driver.ErrDoubtful is a warning.
func checkArg(name string, value any) error {
	in := new(ec2.RunInstancesInput)
	if err := setArg(fields{templates: true}, in, name, value); err != nil {
		return err
	}
	return errors.Join(checkParameters(in), doubts(in))
}

// checkArgs says what the arguments of a group lack when they are taken together.
func checkArgs(args map[string]any) error {
	if args["ImageId"] == nil && args["LaunchTemplate"] == nil {
		return errors.New("ImageId: missing; name an image, such as \"ami-0123456789abcdef0\", or one of images: \"{{ .Image.KEY }}\"")
	}
	return nil
}

// decodeArgs makes the parameters of a call from rendered arguments.
func decodeArgs(args map[string]any) (*ec2.RunInstancesInput, error) {
	in := new(ec2.RunInstancesInput)
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if slices.Contains(forbiddenArgs, name) {
			return nil, fmt.Errorf("args: %s: is set by the server itself", name)
		}
		if err := setArg(fields{}, in, name, args[name]); err != nil {
			return nil, fmt.Errorf("args: %w", err)
		}
	}
	if err := checkParameters(in); err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	return in, nil
}

func setArg(f fields, in *ec2.RunInstancesInput, name string, value any) error {
	to := reflect.ValueOf(in).Elem()
	field, ok := to.Type().FieldByName(name)
	if !ok || !field.IsExported() {
		return fmt.Errorf("%s: not a parameter of RunInstances; %s", name, known(to.Type(), name))
	}
	return f.set(name, to.FieldByIndex(field.Index), value)
}

// checkParameters refuses what EC2 would accept and the server could not live with.
func checkParameters(in *ec2.RunInstancesInput) error {
	for i, spec := range in.TagSpecifications {
		for j, t := range spec.Tags {
			if isOurs(sdk.ToString(t.Key)) {
				return fmt.Errorf("TagSpecifications[%d].Tags[%d].Key: tags that begin with %q are the server's own", i, j, ourSpace)
			}
		}
	}
	for i, n := range in.NetworkInterfaces {
		if n.SubnetId != nil {
			return fmt.Errorf("NetworkInterfaces[%d].SubnetId: is set by the server itself", i)
		}
	}
	if m := in.InstanceMarketOptions; m != nil && m.SpotOptions != nil && m.SpotOptions.SpotInstanceType == types.SpotInstanceTypePersistent {
		return errors.New("InstanceMarketOptions.SpotOptions.SpotInstanceType: is \"persistent\", " +
			"with which EC2 replaces machines by itself; the server does that, so it must be \"one-time\"")
	}
	if sdk.ToBool(in.DisableApiTermination) {
		return errors.New("DisableApiTermination: is true, and then the server could not delete the machine")
	}
	return nil
}

// doubts are what is likely to be a mistake.
func doubts(in *ec2.RunInstancesInput) error {
	for i, m := range in.BlockDeviceMappings {
		if m.DeviceName == nil {
			return fmt.Errorf("%w: BlockDeviceMappings[%d] has no DeviceName; lists are replaced as a whole, so what another layer says is gone",
				driver.ErrDoubtful, i)
		}
	}
	return nil
}
