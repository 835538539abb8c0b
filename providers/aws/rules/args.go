package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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
// wraps driver.ErrArgWarning is a warning.
func checkArg(name string, value any) error {
	read, err := reader{templates: true}.arg(name, value)
	if err != nil {
		return err
	}
	in := map[string]any{name: read}
	return errors.Join(checkParameters(in), doubts(in))
}

// checkArgs says what the arguments of a group lack when they are taken together.
func checkArgs(args map[string]any) error {
	if args["ImageId"] == nil && args["LaunchTemplate"] == nil {
		return errors.New("ImageId: missing; name an image, such as \"ami-0123456789abcdef0\", or one of images: \"{{ .Image.KEY }}\"")
	}
	return nil
}

// Parameters are those of a call of RunInstances, of rendered arguments: by the SDK's
// names, and in the form in which the SDK's structures are read from JSON.
func Parameters(args map[string]any) (map[string]any, error) {
	in := make(map[string]any, len(args))
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if slices.Contains(forbiddenArgs, name) {
			return nil, fmt.Errorf("%s: is set by the server itself", name)
		}
		value, err := reader{}.arg(name, args[name])
		if err != nil {
			return nil, err
		}
		if value != nil {
			in[name] = value
		}
	}
	return in, checkParameters(in)
}

// arg reads one parameter of RunInstances.
func (r reader) arg(name string, value any) (any, error) {
	parameters := sdk().objects[runInstances]
	typ, ok := parameters.types[name]
	if !ok {
		return nil, fmt.Errorf("%s: not a parameter of RunInstances; %s", name, parameters.known(name))
	}
	return r.read(name, typ, value)
}

// checkParameters refuses what EC2 would accept and the server could not live with.
func checkParameters(in map[string]any) error {
	for i, spec := range objects(in, "TagSpecifications") {
		for j, t := range objects(spec, "Tags") {
			if key, _ := t["Key"].(string); IsOurs(key) {
				return fmt.Errorf("TagSpecifications[%d].Tags[%d].Key: tags that begin with %q are the server's own", i, j, ourSpace)
			}
		}
	}
	for i, n := range objects(in, "NetworkInterfaces") {
		if n["SubnetId"] != nil {
			return fmt.Errorf("NetworkInterfaces[%d].SubnetId: is set by the server itself", i)
		}
	}
	market, _ := in["InstanceMarketOptions"].(map[string]any)
	spot, _ := market["SpotOptions"].(map[string]any)
	if spot["SpotInstanceType"] == "persistent" {
		return errors.New("InstanceMarketOptions.SpotOptions.SpotInstanceType: is \"persistent\", " +
			"with which EC2 replaces machines by itself; the server does that, so it must be \"one-time\"")
	}
	if in["DisableApiTermination"] == true {
		return errors.New("DisableApiTermination: is true, and then the server could not delete the machine")
	}
	return nil
}

// doubts are what is likely to be a mistake.
func doubts(in map[string]any) error {
	for i, m := range objects(in, "BlockDeviceMappings") {
		if m["DeviceName"] == nil {
			return fmt.Errorf("%w: BlockDeviceMappings[%d] has no DeviceName; lists are replaced as a whole, so what another layer says is gone",
				driver.ErrArgWarning, i)
		}
	}
	return nil
}

// objects are those in a list that was read; one that was null is empty.
func objects(in map[string]any, name string) []map[string]any {
	list, _ := in[name].([]any)
	made := make([]map[string]any, len(list))
	for i, item := range list {
		made[i], _ = item.(map[string]any)
	}
	return made
}

// ourSpace is how the tags begin that only the server sets.
const ourSpace = "nstance:"

// IsOurs reports whether a tag is one that only the server sets.
func IsOurs(key string) bool { return strings.HasPrefix(strings.ToLower(key), ourSpace) }
