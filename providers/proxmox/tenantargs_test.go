package proxmox

import (
	"slices"
	"testing"
)

// What names a network, a storage, a template or a part of the host, tenants do not set.
func TestS12_ArgumentsThatCarryRights(t *testing.T) {
	rules := Rules()
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
