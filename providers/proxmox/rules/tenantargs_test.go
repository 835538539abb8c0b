package rules

import (
	"os"
	"slices"
	"strings"
	"testing"
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
	page, err := os.ReadFile("../../../docs/providers/proxmox.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\nTenants set ")
	names, _, found := strings.Cut(rest, ";")
	if !found {
		t.Fatal("the page does not say what callers of the API may set")
	}
	var documented []string
	for i, part := range strings.Split(names, "`") {
		if i%2 == 1 {
			documented = append(documented, part)
		}
	}
	slices.Sort(documented)
	if !slices.Equal(documented, tenantArgs) {
		t.Errorf("the page says %q, and tenants may set %q", documented, tenantArgs)
	}
}
