package rules

import (
	"slices"
	"testing"

	"nstance.dev/server/driver/drivertest/docpage"
)

// What names an identity, a network, a key, an image or anything else beyond the machine,
// tenants do not set.
func TestS12_ArgumentsThatCarryRights(t *testing.T) {
	rules := New()
	for _, name := range []string{
		"AccessConfig", "BootDisk", "CanIpForward", "Labels", "Metadata", "NetworkTags", "ResourcePolicies", "ServiceAccount",
		"ServiceAccounts", "SourceImage", "StackType", "NetworkInterfaces", "serviceAccount",
	} {
		if slices.Contains(rules.TenantArgs, name) {
			t.Errorf("every tenant may set %s", name)
		}
	}
	for _, name := range rules.TenantArgs {
		if !slices.Contains(argumentNames(), name) {
			t.Errorf("%s is no argument", name)
		}
	}
}

func TestS12_TenantArgumentsOnThePage(t *testing.T) {
	docpage.Same(t, "argument for tenants", tenantArgs, docpage.Listed(t, "../../../docs/providers/gcp.md", "[callers of the API](../security.md#tenants) may set "))
}
