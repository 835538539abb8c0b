package effective

import (
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
)

// SizesOf gives the sizes of all groups of a tenant, by key.
func (c *Config) SizesOf(file *groupfile.File, tenant string) map[string]int {
	sizes := map[string]int{}
	for key := range c.Groups[tenant] {
		entry, _ := file.Group(tenant, key)
		sizes[key] = c.SizeOf(tenant, key, &entry)
	}
	if file == nil {
		return sizes
	}
	for key, entry := range file.Groups[tenant] {
		sizes[key] = c.SizeOf(tenant, key, entry)
	}
	return sizes
}

// SizeOf is the size of one group, as merge makes it: 0 of one of mode demand.
func (c *Config) SizeOf(tenant, key string, entry *groupfile.Entry) int {
	static, isStatic := c.Groups[tenant][key]
	template := entry.Template
	if isStatic {
		template = static.Template
	} else if entry.DeletedAt != nil {
		return 0
	}
	if static.Demands() || !isStatic && entry.Mode == document.ModeDemand {
		return 0
	}
	size := 0
	setInt(&size, c.Templates[template].Size)
	setInt(&size, static.Size)
	setInt(&size, entry.Size)
	return size
}

// GroupBytes is how many bytes of the group file a tenant may fill: its quota, and
// never all.
func (c *Config) GroupBytes(tenant string) int {
	return min(c.QuotaOf(tenant).Bytes, groupfile.MaxTenantBytes)
}
