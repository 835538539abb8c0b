package rules

import (
	"slices"
	"testing"

	"nstance.dev/server/driver/drivertest/docpage"
)

// What names a network, a storage, a template or a part of the host, tenants do not set.
func TestS12_ArgumentsThatCarryRights(t *testing.T) {
	rules := New()
	for _, name := range []string{"Bridge", "Config", "Firewall", "NetworkConfig", "Nodes", "Pool", "StoragePool", "TemplateName", "TemplateVMID", "VLANTag", "bridge"} {
		if slices.Contains(rules.TenantArgs, name) {
			t.Errorf("every tenant may set %s", name)
		}
	}
	for _, name := range rules.TenantArgs {
		if !slices.Contains(argNames(), name) {
			t.Errorf("%s is no argument", name)
		}
	}
}

func TestS12_TenantArgumentsOnThePage(t *testing.T) {
	docpage.Same(t, "argument for tenants", tenantArgs, docpage.Listed(t, "../../../docs/providers/proxmox.md", "\nTenants set "))
}
