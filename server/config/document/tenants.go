package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"nstance.dev/server/config/jsonc"
)

// DefaultTenant is the tenant that exists without being configured.
const DefaultTenant = "default"

// HasTenant says whether name is the default tenant or a configured one.
func (c *Config) HasTenant(name string) bool {
	_, ok := c.Tenants[name]
	return ok || name == DefaultTenant
}

// SeveralTenants says whether the shard is shared: tenants besides the default
// one are configured.
func (c *Config) SeveralTenants() bool { return len(c.Tenants) > 0 }

// TenantNames are the names of all tenants: the default one, and the others in order.
func (c *Config) TenantNames() []string {
	return append([]string{DefaultTenant}, slices.Sorted(maps.Keys(c.Tenants))...)
}

// Administrates says whether operators of the tenant may see and do what
// concerns the whole shard.
func (c *Config) Administrates(tenant string) bool {
	return slices.Contains(c.Server.AdminTenants, tenant)
}

// TenantsIn gives the tenants of a stored configuration, without judging the rest of it:
// another shard's may be of another provider, or not be valid here.
func TenantsIn(name string, data []byte) (map[string]bool, error) {
	text, err := jsonc.Standard(name, data)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Tenants map[string]json.RawMessage `json:"tenants"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	tenants := map[string]bool{DefaultTenant: true}
	for tenant := range doc.Tenants {
		tenants[tenant] = true
	}
	return tenants, nil
}
