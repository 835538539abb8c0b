package awsfake

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// order is what a launch asks for, once nothing is wrong with it.
type order struct {
	least, most int
	subnet      Subnet
	image       Image
	kind        Type
	groups      []string
	userData    []byte
	tagsOf      map[types.ResourceType]map[string]string
	wantsIPv6   bool // an address of each machine is wanted
	spot        bool
	terminates  bool // a machine that powers itself off is terminated
}

// The limits of "RunInstances" and "Tag restrictions" of the documentation.
const (
	longestToken    = 64
	largestUserData = 16 << 10 // before base64
	mostTags        = 50
	longestTagKey   = 128
	longestTagValue = 256
)

// check says what a launch asks for, or what is wrong with it. It does not look at
// what the account still has room for.
func (a *Account) check(in *ec2.RunInstancesInput) (order, error) {
	in, err := a.resolve(in)
	if err != nil {
		return order{}, err
	}
	o := order{least: int(aws.ToInt32(in.MinCount)), most: int(aws.ToInt32(in.MaxCount))}
	o.terminates = in.InstanceInitiatedShutdownBehavior == types.ShutdownBehaviorTerminate
	for _, step := range []func(*Account, *ec2.RunInstancesInput, *order) error{
		checkCounts, checkImageAndType, checkNetwork, checkUserData, checkNames, checkTags, checkMarket, checkDevices,
	} {
		if err := step(a, in, &o); err != nil {
			return order{}, err
		}
	}
	return o, nil
}

func missing(parameter string) error {
	return refuse("MissingParameter", "The request must contain the parameter %s", parameter)
}

func checkCounts(_ *Account, in *ec2.RunInstancesInput, o *order) error {
	switch {
	case in.MinCount == nil:
		return missing("MinCount")
	case in.MaxCount == nil:
		return missing("MaxCount")
	case o.least < 1, o.most < o.least, o.most > 1000:
		return refuse("InvalidParameterValue", "Invalid value '%d' for instanceCount", o.most)
	}
	if token := aws.ToString(in.ClientToken); len(token) > longestToken {
		return refuse("InvalidParameterValue", "Value (%s) for parameter clientToken is invalid. The length exceeds %d.", token, longestToken)
	}
	return nil
}

func checkImageAndType(a *Account, in *ec2.RunInstancesInput, o *order) error {
	id := aws.ToString(in.ImageId)
	image := slices.IndexFunc(a.Images, func(i Image) bool { return i.ID == id })
	kind := slices.IndexFunc(a.Types, func(t Type) bool { return t.Name == string(in.InstanceType) })
	switch {
	case id == "":
		return missing("ImageId")
	case !strings.HasPrefix(id, "ami-"):
		return refuse("InvalidAMIID.Malformed", `Invalid id: "%s" (expecting "ami-...")`, id)
	case image < 0:
		return refuse("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
	case in.InstanceType == "":
		return missing("InstanceType")
	case kind < 0:
		return refuse("InvalidParameterValue", "Invalid value '%s' for InstanceType.", in.InstanceType)
	}
	o.image, o.kind = a.Images[image], a.Types[kind]
	if string(o.image.Architecture) != string(o.kind.Architecture) {
		return refuse("InvalidParameterValue",
			"The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI. "+
				"Specify an instance type and an AMI that have matching architectures, and try again.",
			o.kind.Architecture, o.image.Architecture)
	}
	return nil
}

func checkNetwork(a *Account, in *ec2.RunInstancesInput, o *order) error {
	subnet, groups := aws.ToString(in.SubnetId), in.SecurityGroupIds
	o.wantsIPv6 = aws.ToInt32(in.Ipv6AddressCount) > 0 || len(in.Ipv6Addresses) > 0
	if len(in.NetworkInterfaces) > 0 {
		first := in.NetworkInterfaces[0]
		switch {
		case subnet != "":
			return refuse("InvalidParameterCombination", "Network interfaces and an instance-level subnet ID may not be specified on the same request")
		case len(groups) > 0:
			return refuse("InvalidParameterCombination", "Network interfaces and an instance-level security groups may not be specified on the same request")
		case first.DeviceIndex == nil:
			return missing("deviceIndex")
		}
		subnet, groups = aws.ToString(first.SubnetId), first.Groups
		o.wantsIPv6 = aws.ToInt32(first.Ipv6AddressCount) > 0 || len(first.Ipv6Addresses) > 0
	}
	if subnet == "" {
		return refuse("VPCIdNotSpecified", "No default VPC for this user")
	}
	at := slices.IndexFunc(a.Subnets, func(s Subnet) bool { return s.ID == subnet })
	if at < 0 {
		return refuse("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", subnet)
	}
	o.subnet = a.Subnets[at]
	for _, group := range groups {
		if !slices.Contains(a.SecurityGroups, group) {
			return refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", group)
		}
	}
	if o.groups = groups; len(groups) == 0 {
		o.groups = a.SecurityGroups[:1] // the VPC's own
	}
	if o.wantsIPv6 && !o.subnet.IPv6.IsValid() {
		return refuse("InvalidParameterValue", "The subnet '%s' has no IPv6 CIDR block", subnet)
	}
	return nil
}

func checkUserData(_ *Account, in *ec2.RunInstancesInput, o *order) error {
	data, err := base64.StdEncoding.DecodeString(aws.ToString(in.UserData))
	if err != nil {
		return refuse("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	}
	if len(data) > largestUserData {
		return refuse("InvalidParameterValue", "User data is limited to %d bytes", largestUserData)
	}
	o.userData = data
	return nil
}

func checkNames(a *Account, in *ec2.RunInstancesInput, o *order) error {
	if key := aws.ToString(in.KeyName); key != "" && !slices.Contains(a.KeyPairs, key) {
		return refuse("InvalidKeyPair.NotFound", "The key pair '%s' does not exist", key)
	}
	if p := in.IamInstanceProfile; p != nil {
		name := aws.ToString(p.Name)
		if arn := aws.ToString(p.Arn); arn != "" {
			name = arn[strings.LastIndex(arn, "/")+1:]
		}
		if !slices.Contains(a.Profiles, name) {
			return refuse("InvalidParameterValue",
				"Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", name)
		}
	}
	if p := in.Placement; p != nil {
		if zone := aws.ToString(p.AvailabilityZone); zone != "" && zone != o.subnet.Zone {
			return refuse("InvalidParameterValue", "The subnet '%s' is not in the Availability Zone '%s'", o.subnet.ID, zone)
		}
	}
	return nil
}

func checkTags(_ *Account, in *ec2.RunInstancesInput, o *order) error {
	o.tagsOf = map[types.ResourceType]map[string]string{}
	for _, spec := range in.TagSpecifications {
		switch spec.ResourceType {
		case types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface,
			types.ResourceTypeSpotInstancesRequest, types.ResourceTypeElasticGpu:
		default:
			return refuse("InvalidParameterValue", "'%s' is not a valid taggable resource type for this operation.", spec.ResourceType)
		}
		if _, twice := o.tagsOf[spec.ResourceType]; twice {
			return refuse("InvalidParameterValue", "Duplicate resource type '%s' in tag specifications", spec.ResourceType)
		}
		tags, err := tagged(nil, spec.Tags)
		if err != nil {
			return err
		}
		o.tagsOf[spec.ResourceType] = tags
	}
	return nil
}

// tagged is what a resource's tags are with more of them.
func tagged(have map[string]string, more []types.Tag) (map[string]string, error) {
	tags, given := maps.Clone(have), map[string]bool{}
	if tags == nil {
		tags = map[string]string{}
	}
	for _, tag := range more {
		key, value := aws.ToString(tag.Key), aws.ToString(tag.Value)
		switch {
		case key == "":
			return nil, missing("Tag.Key")
		case len(key) > longestTagKey, strings.HasPrefix(strings.ToLower(key), "aws:"):
			return nil, refuse("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use, and none may be longer than %d: '%s'", longestTagKey, key)
		case len(value) > longestTagValue:
			return nil, refuse("InvalidParameterValue", "Tag value exceeds the maximum length of %d characters", longestTagValue)
		case given[key]:
			return nil, refuse("InvalidParameterValue", "Duplicate tag key '%s' specified.", key)
		}
		given[key], tags[key] = true, value
	}
	if len(tags) > mostTags {
		return nil, refuse("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
	}
	return tags, nil
}

func checkMarket(_ *Account, in *ec2.RunInstancesInput, o *order) error {
	market := in.InstanceMarketOptions
	if market == nil {
		return nil
	}
	o.spot = market.MarketType == types.MarketTypeSpot
	if !o.spot && market.SpotOptions != nil {
		return refuse("InvalidParameterCombination", "Spot options may be given for the market type spot alone")
	}
	if o.spot && o.kind.SpotUSD == 0 {
		return refuse("UnsupportedOperation", "The instance type '%s' is not sold as Spot Instance", o.kind.Name)
	}
	if market.SpotOptions == nil || market.SpotOptions.MaxPrice == nil {
		return nil // at most what the machine costs by the hour
	}
	price, err := strconv.ParseFloat(*market.SpotOptions.MaxPrice, 64)
	switch {
	case err != nil || price <= 0:
		return refuse("InvalidParameterValue", "Invalid value '%s' for SpotOptions.MaxPrice", *market.SpotOptions.MaxPrice)
	case price < o.kind.SpotUSD:
		return refuse("SpotMaxPriceTooLow", "Your Spot request price of %v is lower than the minimum required Spot request fulfillment price of %v.",
			price, o.kind.SpotUSD)
	}
	return nil
}

func checkDevices(_ *Account, in *ec2.RunInstancesInput, _ *order) error {
	for _, mapping := range in.BlockDeviceMappings {
		if aws.ToString(mapping.DeviceName) == "" {
			return missing("deviceName")
		}
	}
	return nil
}
