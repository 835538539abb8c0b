package effective

import (
	"slices"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
)

// Recorded is what the instance records say of one group.
type Recorded struct {
	Size int // managed instances that are to live
	// Of the newest instance: what it was made from, by its record.
	Template, InstanceType, SubnetPool string
	InfraHash                          string
	// Entry is the group's entry in the group file when that instance was made, as
	// [groupfile.Entry.Origin] gives it; nil: the record has none.
	Entry *groupfile.Entry
}

// Rebuild makes a group file in the place of one that was lost, from the last copy
// that could be read (nil: there is none) and what the records say. Each group has
// as many machines as there are. Every entry is marked as rebuilt at the given
// time, and so is every static group: what the API had set for it, or that it was
// paused, may be lost. Neither argument is changed.
func Rebuild(cfg *Config, last *groupfile.File, recorded map[document.GroupKey]Recorded, at time.Time) *groupfile.File {
	file := &groupfile.File{}
	if last != nil {
		file = last.Clone()
	}
	for key, rec := range recorded {
		file.Set(key.Tenant, key.Group, rebuilt(cfg, file, key, rec))
	}
	for tenant, groups := range cfg.Groups {
		for key := range groups {
			entry, _ := file.Group(tenant, key)
			file.Set(tenant, key, entry)
		}
	}
	for tenant, groups := range file.Groups {
		for key, entry := range groups {
			marked := *entry
			marked.Rebuilt = &document.Time{Time: at}
			file.Set(tenant, key, marked)
		}
	}
	return file
}

// rebuilt is the entry of one group. Of the entry of the last copy and that of the
// newest instance the one counts that makes instances like the newest: nothing is
// replaced for it.
func rebuilt(cfg *Config, file *groupfile.File, key document.GroupKey, rec Recorded) groupfile.Entry {
	entry, copied := file.Group(key.Tenant, key.Group)
	_, static := cfg.Groups[key.Tenant][key.Group]
	if !copied || cfg.infraHash(key, entry) != rec.InfraHash {
		switch {
		case rec.Entry != nil:
			origin := *rec.Entry
			origin.Size, origin.Retired, origin.DeletedAt = entry.Size, entry.Retired, entry.DeletedAt
			entry = origin
		case !copied:
			entry = cfg.likeNewest(key, rec, static)
		}
	}
	size := rec.Size
	switch {
	case entry.Mode == document.ModeDemand && !static, cfg.Groups[key.Tenant][key.Group].Mode == document.ModeDemand:
		entry.Size = nil // it follows from what is needed
	case size == 0 && (copied || static): // it may be waiting for its first machines
	case !static || cfg.withEntry(key, entry).Size != size:
		entry.Size = &size
	}
	return entry
}

// likeNewest is an entry made from the record of the newest instance alone. What the
// template or the configuration says anyway is left out.
func (c *Config) likeNewest(key document.GroupKey, rec Recorded, static bool) groupfile.Entry {
	var entry groupfile.Entry
	given := c.Templates[rec.Template].InstanceType
	if static {
		if s := c.Groups[key.Tenant][key.Group]; len(s.InstanceType) > 0 {
			given = s.InstanceType
		}
	} else {
		entry.Template = rec.Template
		if rec.SubnetPool != c.Templates[rec.Template].SubnetPool {
			entry.SubnetPool = rec.SubnetPool
		}
	}
	if !slices.Contains(given, rec.InstanceType) {
		entry.InstanceType = rec.InstanceType
	}
	return entry
}

// withEntry is what a group would be with an entry.
func (c *Config) withEntry(key document.GroupKey, entry groupfile.Entry) *Group {
	file := &groupfile.File{}
	file.Set(key.Tenant, key.Group, entry)
	return c.effective(file, key)
}

func (c *Config) infraHash(key document.GroupKey, entry groupfile.Entry) string {
	return c.withEntry(key, entry).InfraHash
}
