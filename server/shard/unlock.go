package shard

import (
	"cmp"
	"slices"
	"time"

	"nstance.dev/server/bucket"
	"nstance.dev/server/config"
	"nstance.dev/server/decisions"
	"nstance.dev/server/fleet"
)

// leaving are the groups that were static when the file was written and are not in
// the configuration, in order.
func leaving(cfg *config.Config, file *config.GroupFile) []fleet.GroupID {
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

// tellUnlocked tells the log and the tenants of groups that have left the
// configuration.
func (r *Reign) tellUnlocked(ids []fleet.GroupID) {
	for _, id := range ids {
		r.log.Warn("static group left the configuration and goes on as a dynamic one", "tenant", id.Tenant, "group", id.Name)
		r.events.failure(r.cache, id, "", decisions.Unlocked, decisions.UnlockedMessage(id), r.now())
	}
}

// unlocked reports whether a group was static and has left the configuration.
func (w *wanted) unlocked(id fleet.GroupID) bool {
	g, ok := w.any(id)
	return ok && !g.Static && g.Dynamic != nil && g.Dynamic.Unlocked != nil
}

// definition is a group that instances can be served by, and the configuration that
// it was made of.
type definition struct {
	group *config.EffectiveGroup
	cfg   *config.Config
}

// definition is what the files of an instance come from: its group as it is. Where
// that cannot be acted on, for its template is gone, as it was when it last could, as
// far as this leader knows. An instance on demand that has outlived its group has the
// entry in its record. False: nobody knows, or the entry was rebuilt and may be an
// old one.
func (r *Reign) definition(id fleet.GroupID, rec bucket.InstanceRecord) (definition, bool) {
	w := r.wanted
	w.mu.RLock()
	g, sound, cfg, held := w.effectives[id], w.sound[id], w.static.Config, w.hold != nil
	w.mu.RUnlock()
	switch {
	case g != nil:
		return sound, sound.group != nil && !g.Rebuilt
	case held:
		return definition{}, false
	}
	entry := r.keptEntry(rec.ID)
	if entry == nil {
		return definition{}, false
	}
	last, ok := cfg.Group(fileOf(id, entry), config.GroupKey{Tenant: id.Tenant, Group: id.Name})
	return definition{last, cfg}, ok && last.Held == ""
}

// fileOf is a group file with one group, which is not being deleted: its instances
// are served until they go.
func fileOf(id fleet.GroupID, entry *config.DynamicGroup) *config.GroupFile {
	file := &config.GroupFile{}
	if entry != nil {
		living := *entry
		living.DeletedAt = nil
		file.Set(id.Tenant, id.Name, living)
	}
	return file
}

// lastDrainTimeout is how long the drains of a group take that is gone: as long as
// the records of its instances say, or as the configuration does for all.
func (r *Reign) lastDrainTimeout(id fleet.GroupID, cfg *config.Config) time.Duration {
	for _, in := range r.cache.Group(id) {
		if entry := r.keptEntry(in.ID); entry != nil && entry.DrainTimeout != nil {
			return entry.DrainTimeout.Std()
		}
	}
	return cfg.Server.DrainTimeout.Std()
}
