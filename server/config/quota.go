package config

import (
	"fmt"
	"math"

	"nstance.dev/server/config/jsonc"
)

// Quota is what one tenant may have in this shard; nil fields take the
// defaults of [Config.QuotaOf]. What a tenant has above it stays, and may
// shrink; it is growth that is refused.
type Quota struct {
	// Machines that exist at the provider or are wanted, managed and on-demand. Default: 10000 where the shard has several tenants, else no limit.
	Machines *int `json:"machines,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// Groups that the API has made or changed. Default: 500 where the shard has several tenants, else 5000.
	Groups *int `json:"groups,omitempty" jsonschema:"minimum=0,maximum=5000"`
	// Bytes of the tenant's entries in the group file. Default: 1 MiB, or its share of 6 MiB where that is less; with one tenant no limit of its own. All tenants together may have 7 MiB: the rest of the file is the server's.
	Bytes *int `json:"bytes,omitempty" jsonschema:"minimum=0,maximum=8388608"`
}

// Defaults of [Quota] where the shard has several tenants.
const (
	sharedMachines  = 10_000
	sharedGroups    = 500
	sharedBytes     = 1 << 20 // at most; all tenants share allTenantsBytes
	allTenantsBytes = 6 << 20 // leaves room below the reader's limit for explicit quotas and what belongs to no tenant
)

// TenantQuota is a [Quota] with the defaults filled in. NoQuota stands for no limit.
type TenantQuota struct{ Machines, Groups, Bytes int }

// NoQuota is the value of a field of [TenantQuota] that sets no limit.
const NoQuota = math.MaxInt

// SeveralTenants says whether the shard is shared: tenants besides the default
// one are configured.
func (c *Config) SeveralTenants() bool { return len(c.Tenants) > 0 }

// QuotaOf gives what a tenant may have, the default one too.
func (c *Config) QuotaOf(tenant string) TenantQuota {
	q := TenantQuota{Machines: NoQuota, Groups: MaxTenantGroups, Bytes: NoQuota}
	if c.SeveralTenants() {
		q = TenantQuota{Machines: sharedMachines, Groups: sharedGroups, Bytes: min(sharedBytes, allTenantsBytes/(len(c.Tenants)+1))}
	}
	set := c.quotaSet(tenant)
	setInt(&q.Machines, set.Machines)
	setInt(&q.Groups, set.Groups)
	setInt(&q.Bytes, set.Bytes)
	return q
}

// quotaSet gives what the configuration says of a tenant's quota, without defaults.
func (c *Config) quotaSet(tenant string) Quota {
	if t, ok := c.Tenants[tenant]; ok {
		return t.Quota
	}
	return c.Server.DefaultQuota
}

// QuotaError refuses a change by which a tenant would have more than its quota.
type QuotaError struct {
	Field string // of the quota: machines, groups or bytes
	Would int    // what the tenant would have
	Limit int    // what it may have
}

// Error says what the change would come to, and what would help.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("the tenant would have %d %s, and its quota in this shard is %d; delete or shrink something, or have an administrator raise the quota",
		e.Would, e.Field, e.Limit)
}

// CheckQuota refuses, by a [QuotaError], an entry of the group file by which a tenant
// would have more groups or machines than its quota; one that does not grow is
// always taken. It returns by how many machines the group grows. count gives how many
// machines the tenant has or will have, if its groups have the given sizes; it is called
// for a group that grows alone.
func CheckQuota(cfg *Config, file *GroupFile, tenant, key string, entry DynamicGroup, count func(sizes map[string]int) int) (growth int, err error) {
	quota := cfg.QuotaOf(tenant)
	old, known := file.Group(tenant, key)
	if n := file.Len(tenant) + 1; !known && n > quota.Groups {
		return 0, &QuotaError{Field: "groups", Would: n, Limit: quota.Groups}
	}
	size := cfg.sizeOf(tenant, key, &entry)
	growth = max(0, size-cfg.sizeOf(tenant, key, &old))
	if quota.Machines == NoQuota || growth == 0 {
		return growth, nil
	}
	sizes := cfg.SizesOf(file, tenant)
	sizes[key] = size
	if n := count(sizes); n > quota.Machines {
		return 0, &QuotaError{Field: "machines", Would: n, Limit: quota.Machines}
	}
	return growth, nil
}

// SizesOf gives the sizes of all groups of a tenant, by key.
func (c *Config) SizesOf(file *GroupFile, tenant string) map[string]int {
	sizes := map[string]int{}
	for key := range c.Groups[tenant] {
		entry, _ := file.Group(tenant, key)
		sizes[key] = c.sizeOf(tenant, key, &entry)
	}
	if file == nil {
		return sizes
	}
	for key, entry := range file.Groups[tenant] {
		sizes[key] = c.sizeOf(tenant, key, entry)
	}
	return sizes
}

// sizeOf is the size of one group, as merge makes it.
func (c *Config) sizeOf(tenant, key string, entry *DynamicGroup) int {
	static, isStatic := c.Groups[tenant][key]
	template := entry.Template
	if isStatic {
		template = static.Template
	} else if entry.DeletedAt != nil {
		return 0
	}
	size := 0
	setInt(&size, c.Templates[template].Size)
	setInt(&size, static.Size)
	setInt(&size, entry.Size)
	return size
}

// quotas looks at the quotas of all tenants.
func (c *checker) quotas(server, tenants jsonc.Path) {
	c.quota(server.Key("default_quota"), c.cfg.Server.DefaultQuota)
	sum := c.cfg.bytesOf(DefaultTenant)
	sorted(c.cfg.Tenants, func(name string, t Tenant) {
		c.quota(tenants.Key(name).Key("quota"), t.Quota)
		if name != DefaultTenant {
			sum += c.cfg.bytesOf(name)
		}
	})
	if sum > maxTenantBytes {
		c.add(tenants, fmt.Sprintf("the quotas of all tenants come to %d bytes of the group file, which has room for %d", sum, maxTenantBytes),
			"lower quota.bytes of some tenants, or server.default_quota.bytes")
	}
}

// bytesOf is what a tenant's quota takes of the group file; a tenant that has it to itself takes none.
func (c *Config) bytesOf(tenant string) int {
	if n := c.QuotaOf(tenant).Bytes; n != NoQuota {
		return n
	}
	return 0
}

func (c *checker) quota(path jsonc.Path, q Quota) {
	for _, f := range []struct {
		name  string
		value *int
		most  int
	}{{"machines", q.Machines, 1_000_000}, {"groups", q.Groups, MaxTenantGroups}, {"bytes", q.Bytes, jsonc.MaxBytes}} {
		if f.value != nil {
			c.number(path.Key(f.name), *f.value, 0, f.most)
		}
	}
}
