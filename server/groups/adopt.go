package groups

import (
	"cmp"
	"reflect"
	"slices"

	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/fleet"
)

// adopt makes the group file fit a configuration and reports whether that changed it. A group
// that was static and has left the configuration becomes a dynamic one, with an entry that has
// its last definition: the change does it no harm, and it ends when somebody deletes it. One
// that is back gives up what was written into its entry then. One that was of mode demand keeps
// its machines, which sized counts. Last, the static groups and the templates of all groups, and
// those used beside, are noted for the next time.
func adopt(cfg *effective.Config, file *groupfile.File, used []groupfile.TemplateUse, sized func(fleet.GroupID) int) (changed bool) {
	for _, id := range leaving(cfg, file) {
		entry, _ := file.Group(id.Tenant, id.Name)
		entry = groupfile.Unlock(entry, file.Static[id.Tenant][id.Name].Group)
		if groupfile.CheckEntry(keyOf(id), entry) != nil {
			entry.Unlocked = nil // args so deep that the copy of them, further down, can't be read
		}
		file.Set(id.Tenant, id.Name, entry)
		changed = true
	}
	if relock(cfg, file) {
		changed = true
	}
	if fixSizes(cfg, file, sized) {
		changed = true
	}
	if now := effective.StaticCopy(cfg); !reflect.DeepEqual(now, file.Static) && len(now)+len(file.Static) > 0 {
		file.Static = now
		changed = true
	}
	if cfg.KeepTemplates(file, used) {
		changed = true
	}
	if file.Templates != nil && !file.Fits() {
		file.Templates = nil
	}
	if file.Static != nil && !file.Fits() {
		file.Static = nil // what is in force counts more than what a group was when it leaves
	}
	return changed
}

// relock gives groups that are back in the configuration their static definition
// again, but for what the API has changed meanwhile.
func relock(cfg *effective.Config, file *groupfile.File) bool {
	changed := false
	for tenant, groups := range cfg.Groups {
		for key := range groups {
			entry, dynamic := file.Group(tenant, key)
			if !dynamic || entry.Unlocked == nil {
				continue
			}
			if entry, left := groupfile.Relock(entry); left {
				file.Set(tenant, key, entry)
			} else {
				file.Remove(tenant, key)
			}
			changed = true
		}
	}
	return changed
}

// fixSizes gives static groups that were of mode demand, and are not any more, the size that they keep:
// that of the configuration, where it gives the group one of its own, else as many machines as there
// are. While the old configuration is still in force that changes nothing.
func fixSizes(cfg *effective.Config, file *groupfile.File, sized func(fleet.GroupID) int) bool {
	changed := false
	for tenant, groups := range cfg.Groups {
		for key, now := range groups {
			if was, known := file.Static[tenant][key]; !known || !was.Demands() || now.Demands() {
				continue
			}
			entry, _ := file.Group(tenant, key)
			entry.Size = nil
			if now.Size == nil {
				size := sized(fleet.GroupID{Tenant: tenant, Name: key})
				entry.Size = &size
			}
			if entry.Equal(groupfile.Entry{}) {
				file.Remove(tenant, key)
			} else {
				file.Set(tenant, key, entry)
			}
			changed = true
		}
	}
	return changed
}

// leaving are the groups that were static when the file was written and are not in
// the configuration, in order.
func leaving(cfg *effective.Config, file *groupfile.File) []fleet.GroupID {
	var ids []fleet.GroupID
	if file == nil {
		return nil
	}
	for tenant, groups := range file.Static {
		for key := range groups {
			if _, static := cfg.Groups[tenant][key]; !static {
				ids = append(ids, fleet.GroupID{Tenant: tenant, Name: key})
			}
		}
	}
	slices.SortFunc(ids, func(a, b fleet.GroupID) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name))
	})
	return ids
}
