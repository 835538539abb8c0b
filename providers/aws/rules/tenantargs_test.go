package rules

import (
	"slices"
	"testing"

	"nstance.dev/server/driver/drivertest/docpage"
)

// Each parameter of RunInstances stands in one list: set by the server, free for every
// tenant, or in need of a template that allows it by name. A new version of the SDK
// that brings another one fails here, so that somebody thinks about it.
func TestS12_EveryParameterIsJudged(t *testing.T) {
	withRights := []string{
		"AdditionalInfo", "BlockDeviceMappings", "CapacityReservationSpecification", "DisableApiTermination", "ElasticGpuSpecification",
		"ElasticInferenceAccelerators", "EnablePrimaryIpv6", "IamInstanceProfile", "ImageId", "Ipv6AddressCount", "Ipv6Addresses",
		"KernelId", "KeyName", "LaunchTemplate", "LicenseSpecifications", "NetworkInterfaces", "Operator", "Placement", "PrivateIpAddress",
		"RamdiskId", "SecondaryInterfaces", "SecurityGroupIds", "SecurityGroups", "TagSpecifications",
	}
	judged := slices.Concat(withRights, tenantArgs, forbiddenArgs)
	all := sdk().objects[runInstances].names
	for _, name := range all {
		switch n := count(judged, name); {
		case n == 0:
			t.Errorf("%s: nobody has judged whether it carries rights", name)
		case n > 1:
			t.Errorf("%s: stands in two lists", name)
		}
	}
	for _, name := range slices.Concat(tenantArgs, forbiddenArgs) {
		if !slices.Contains(all, name) {
			t.Errorf("%s: is no parameter", name)
		}
	}
	if rules := New(); !slices.Equal(rules.TenantArgs, tenantArgs) {
		t.Errorf("the rules let tenants set %q", rules.TenantArgs)
	}
}

func count(list []string, name string) int {
	n := 0
	for _, s := range list {
		if s == name {
			n++
		}
	}
	return n
}

func TestS12_TenantArgumentsOnThePage(t *testing.T) {
	docpage.Same(t, "argument for tenants", tenantArgs, docpage.Listed(t, "../../../docs/providers/aws.md", "[callers of the API](../security.md#tenants) may set "))
}
