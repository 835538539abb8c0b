package checks

import (
	"fmt"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/jsonc"
)

// quotas looks at the quotas of all tenants.
func (c serverCheck) quotas(server, tenants jsonc.Path) {
	c.quota(server.Key("default_quota"), c.cfg.Server.DefaultQuota)
	sum := bytesOf(c.cfg, document.DefaultTenant)
	sorted(c.cfg.Tenants, func(name string, t document.Tenant) {
		c.quota(tenants.Key(name).Key("quota"), t.Quota)
		if name != document.DefaultTenant {
			sum += bytesOf(c.cfg, name)
		}
	})
	if sum > groupfile.MaxTenantBytes {
		c.add(tenants, fmt.Sprintf("the quotas of all tenants come to %d bytes of the group file, which has room for %d", sum, groupfile.MaxTenantBytes),
			"lower quota.bytes of some tenants, or server.default_quota.bytes")
	}
}

// bytesOf is what a tenant's quota takes of the group file; a tenant that has it to itself takes none.
func bytesOf(cfg *effective.Config, tenant string) int {
	if n := cfg.QuotaOf(tenant).Bytes; n != document.NoQuota {
		return n
	}
	return 0
}

func (c serverCheck) quota(path jsonc.Path, q document.Quota) {
	for _, f := range []struct {
		name  string
		value *int
		most  int
	}{{"machines", q.Machines, 1_000_000}, {"groups", q.Groups, document.MaxTenantGroups}, {"bytes", q.Bytes, jsonc.MaxBytes}} {
		if f.value != nil {
			c.number(path.Key(f.name), *f.value, 0, f.most)
		}
	}
}

func (c serverCheck) tenants(path jsonc.Path) {
	var root jsonc.Path
	c.quotas(root.Key("server"), path)
	sorted(c.cfg.Tenants, func(tenant string, t document.Tenant) {
		if tenant == document.DefaultTenant {
			c.addKey(path.Key(tenant), `"default" exists by itself`, "take it out here; under groups it may stand")
			return
		}
		c.name(path.Key(tenant), tenant)
		for i, pool := range t.SubnetPools {
			reference(c.report, path.Key(tenant).Key("subnet_pools").Index(i), "subnet pool", pool, c.cfg.Server.SubnetPools)
		}
	})
}

func (c serverCheck) adminTenants(path jsonc.Path) {
	for i, tenant := range c.cfg.Server.AdminTenants {
		if !c.cfg.HasTenant(tenant) {
			reference(c.report, path.Index(i), "tenant", tenant, c.cfg.Tenants)
		}
	}
	if c.cfg.SeveralTenants() && !c.doc.Has(path) {
		c.warn(path, "no tenant may act on the whole shard: there are several tenants, and none is named here",
			`name those whose operators may refresh the configuration and pause the shard, such as ["default"], or write []`)
	}
}
