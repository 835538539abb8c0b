package awsfake

import (
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// LaunchTemplate is a launch template with one version. Empty fields are not in it.
type LaunchTemplate struct {
	ID, Name       string
	Image          string
	SecurityGroups []string // of the machine, which excludes Interfaces

	// Interfaces has the security groups of network interfaces, by the index of the
	// device; it has no subnets.
	Interfaces [][]string
}

// resolve fills in what a launch leaves to its template: "Any additional parameters that
// you specify for the new instance overwrite the corresponding parameters included in
// the launch template." Interfaces are those of one device index.
func (a *Account) resolve(in *ec2.RunInstancesInput) (*ec2.RunInstancesInput, error) {
	named := in.LaunchTemplate
	if named == nil {
		return in, nil
	}
	t, err := a.template(named)
	if err != nil {
		return nil, err
	}
	all := *in
	if all.ImageId == nil && t.Image != "" {
		all.ImageId = aws.String(t.Image)
	}
	if len(all.SecurityGroupIds) == 0 {
		all.SecurityGroupIds = t.SecurityGroups
	}
	all.NetworkInterfaces = slices.Clone(in.NetworkInterfaces)
	for index, groups := range t.Interfaces {
		at := slices.IndexFunc(all.NetworkInterfaces, func(n types.InstanceNetworkInterfaceSpecification) bool {
			return int(aws.ToInt32(n.DeviceIndex)) == index
		})
		if at < 0 {
			at = len(all.NetworkInterfaces)
			all.NetworkInterfaces = append(all.NetworkInterfaces, types.InstanceNetworkInterfaceSpecification{DeviceIndex: aws.Int32(int32(index))}) //nolint:gosec // few
		}
		if n := &all.NetworkInterfaces[at]; len(n.Groups) == 0 {
			n.Groups = groups
		}
	}
	return &all, nil
}

func (a *Account) template(named *types.LaunchTemplateSpecification) (LaunchTemplate, error) {
	id, name := aws.ToString(named.LaunchTemplateId), aws.ToString(named.LaunchTemplateName)
	if (id == "") == (name == "") {
		return LaunchTemplate{}, refuse("InvalidParameterCombination", "Either the ID or the name of the launch template must be specified, and not both")
	}
	at := slices.IndexFunc(a.LaunchTemplates, func(t LaunchTemplate) bool { return t.ID == id || t.Name == name })
	switch {
	case at < 0 && id != "":
		return LaunchTemplate{}, refuse("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
	case at < 0:
		return LaunchTemplate{}, refuse("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
	}
	switch version := aws.ToString(named.Version); version {
	case "", "$Default", "$Latest", "1":
	default:
		if _, err := strconv.ParseUint(version, 10, 64); err != nil {
			return LaunchTemplate{}, refuse("InvalidLaunchTemplateId.Malformed", "Invalid launch template version: %s", version)
		}
		return LaunchTemplate{}, refuse("InvalidLaunchTemplateId.VersionNotFound", "Could not find launch template version %s", version)
	}
	return a.LaunchTemplates[at], nil
}
