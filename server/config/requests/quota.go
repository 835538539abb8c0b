package requests

import (
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
)

// CheckQuota refuses, by a [QuotaError], an entry of the group file by which a tenant
// would have more groups or machines than its quota; one that does not grow is
// always taken. It returns by how many machines the group grows. count gives how many
// machines the tenant has or will have, if its groups have the given sizes; it is called
// for a group that grows alone.
func CheckQuota(cfg *effective.Config, file *groupfile.File, tenant, key string, entry groupfile.Entry, count func(sizes map[string]int) int) (growth int, err error) {
	quota := cfg.QuotaOf(tenant)
	old, known := file.Group(tenant, key)
	if n := file.Len(tenant) + 1; !known && n > quota.Groups {
		return 0, &groupfile.QuotaError{Field: "groups", Would: n, Limit: quota.Groups}
	}
	size := cfg.SizeOf(tenant, key, &entry)
	growth = max(0, size-cfg.SizeOf(tenant, key, &old))
	if quota.Machines == document.NoQuota || growth == 0 {
		return growth, nil
	}
	sizes := cfg.SizesOf(file, tenant)
	sizes[key] = size
	if n := count(sizes); n > quota.Machines {
		return 0, &groupfile.QuotaError{Field: "machines", Would: n, Limit: quota.Machines}
	}
	return growth, nil
}
