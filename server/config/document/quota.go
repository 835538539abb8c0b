package document

import "math"

// Quota is what one tenant may have in this shard; a field that is left out takes its default. What a tenant has above it stays, and may
// shrink; it is growth that is refused. [Config.QuotaOf] fills the defaults in.
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

// QuotaOf gives what a tenant may have, the default one too.
func (c *Config) QuotaOf(tenant string) TenantQuota {
	q := TenantQuota{Machines: NoQuota, Groups: MaxTenantGroups, Bytes: NoQuota}
	if c.SeveralTenants() {
		q = TenantQuota{Machines: sharedMachines, Groups: sharedGroups, Bytes: min(sharedBytes, allTenantsBytes/(len(c.Tenants)+1))}
	}
	set := c.QuotaSet(tenant)
	q.Machines = orDefault(set.Machines, q.Machines)
	q.Groups = orDefault(set.Groups, q.Groups)
	q.Bytes = orDefault(set.Bytes, q.Bytes)
	return q
}

// QuotaSet gives what the configuration says of a tenant's quota, without defaults.
func (c *Config) QuotaSet(tenant string) Quota {
	if t, ok := c.Tenants[tenant]; ok {
		return t.Quota
	}
	return c.Server.DefaultQuota
}

func orDefault(set *int, otherwise int) int {
	if set == nil {
		return otherwise
	}
	return *set
}
