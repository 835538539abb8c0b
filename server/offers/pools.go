package offers

import (
	"maps"
	"slices"
	"strings"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/demand"
	"nstance.dev/server/driver"
)

// Names of pools: those of the configuration, and one for what a tenant may have in all.
const (
	quotaPrefix  = "quota/"
	tenantPrefix = "tenant/"
)

// uses are the pools that a machine takes units of, by name.
func (s *shard) uses(g *effective.Group, t driver.InstanceType, capacity driver.CapacityType) []demand.PoolUse {
	var uses []demand.PoolUse
	for _, name := range slices.Sorted(maps.Keys(s.cfg.Server.Demand.QuotaPools)) {
		pool := s.cfg.Server.Demand.QuotaPools[name]
		if !has(pool.Families, s.familyOf(&t)) || !has(pool.InstanceTypes, t.Name) ||
			!has(pool.CapacityTypes, string(capacity)) || !has(pool.Groups, g.Tenant+"/"+g.Key) {
			continue
		}
		if units := unitsOf(pool.Counts, g, t); units > 0 {
			uses = append(uses, demand.PoolUse{Pool: quotaPrefix + name, Units: units})
		}
	}
	if s.cfg.QuotaOf(g.Tenant).Machines != document.NoQuota {
		uses = append(uses, demand.PoolUse{Pool: tenantPrefix + g.Tenant, Units: 1})
	}
	return uses
}

// has says whether a list that may be absent has a word.
func has(list []string, word string) bool { return len(list) == 0 || slices.Contains(list, word) }

// unitsOf is what a machine takes of a pool; 0: nothing, it is not in it.
func unitsOf(counts string, g *effective.Group, t driver.InstanceType) int64 {
	switch counts {
	case document.CountsVCPU:
		return int64(t.VCPU)
	case document.CountsMemory:
		return (int64(t.MemoryMiB) + 1023) / 1024
	case document.CountsGPU:
		return int64(t.GPUs)
	default:
		return int64(*g.Demand.Weight)
	}
}

// pools are the limits of all pools, by name. What tenants have beside their demand groups is taken
// off their own.
func (s *shard) pools(tenants map[string]bool, taken map[string]int) []demand.PoolChanged {
	var all []demand.PoolChanged
	for name, pool := range s.cfg.Server.Demand.QuotaPools {
		all = append(all, demand.PoolChanged{Name: quotaPrefix + name, Limit: pool.Limit})
	}
	for tenant := range tenants {
		if n := s.cfg.QuotaOf(tenant).Machines; n != document.NoQuota {
			all = append(all, demand.PoolChanged{Name: tenantPrefix + tenant, Limit: int64(max(n-taken[tenant], 0))})
		}
	}
	slices.SortFunc(all, func(a, b demand.PoolChanged) int { return strings.Compare(a.Name, b.Name) })
	return all
}
