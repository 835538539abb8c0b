package groups

import (
	"encoding/json"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/fleet"
)

// records are those of the shard's instances, as far as they tell of groups.
type records struct{ opts Options }

// groups is what the records say of the groups that have instances.
func (r records) groups(cfg *effective.Config) map[document.GroupKey]effective.Recorded {
	groups := map[document.GroupKey]effective.Recorded{}
	newest := map[document.GroupKey]cache.Instance{}
	for _, in := range r.opts.Cache.All() {
		if in.State == fleet.Deleted {
			continue
		}
		key := keyOf(in.Group)
		rec := groups[key]
		if keepsPlace(in) {
			rec.Size++
		}
		// Instances on demand may be made from another template: they count where
		// there are no others.
		if old, known := newest[key]; !known || !in.OnDemand && (old.OnDemand || in.ID > old.ID) {
			newest[key] = in
			rec.Template, rec.InstanceType, rec.SubnetPool, rec.InfraHash = in.Template, in.InstanceType, in.SubnetPool, in.InfraHash
			if _, static := cfg.Groups[key.Tenant][key.Group]; !static || !in.OnDemand {
				rec.Entry = r.readableEntry(key, in.ID) // that of one on demand has the definition of then
			}
		}
		groups[key] = rec
	}
	return groups
}

// size is how many instances of a group keep a place in it.
func (r records) size(id fleet.GroupID) int {
	n := 0
	for _, in := range r.opts.Cache.Group(id) {
		if in.State != fleet.Deleted && keepsPlace(in) {
			n++
		}
	}
	return n
}

// keepsPlace reports whether an instance counts for the size of its group: whoever
// is to live, or to be replaced.
func keepsPlace(in cache.Instance) bool {
	return !in.OnDemand && in.Replacement == "" && !PlaceGone(in)
}

// PlaceGone reports whether a smaller size has taken the instance's place already.
// One that leaves for another reason is made up for, unless its place goes too.
func PlaceGone(in cache.Instance) bool {
	if !in.State.Leaving() {
		return false
	}
	switch in.Removal.Reason {
	case fleet.ReasonScaleDown, fleet.ReasonGroupDeleted, fleet.ReasonTenantSleep:
		return true
	default:
		return false
	}
}

// maxKeptEntry is how large a group's entry may be, in JSON, to be kept with each of
// its instances.
const maxKeptEntry = 8 << 10

// entryToKeep is what the record of a new instance keeps of the entry of its group; nil where
// there is none, and where it is too much. An instance on demand may outlive its group: its
// record has the definition of a static one, too.
func entryToKeep(g *effective.Group, cfg *effective.Config, onDemand bool) json.RawMessage {
	var entry groupfile.Entry
	if g.Dynamic != nil {
		entry = *g.Dynamic
	}
	if static, ok := cfg.Groups[g.Tenant][g.Key]; ok && onDemand {
		entry = groupfile.Unlock(entry.Origin(), static)
	}
	if entry = entry.Origin(); entry.Equal(groupfile.Entry{}) {
		return nil
	}
	data, err := json.Marshal(entry)
	if err != nil || len(data) > maxKeptEntry {
		return nil
	}
	return data
}

// keptEntry is the entry of its group that a record keeps; nil if it has none.
func (r records) keptEntry(id identity.ID) *groupfile.Entry {
	rec, ok := r.opts.Instances.Record(id)
	if !ok || len(rec.GroupEntry) == 0 {
		return nil
	}
	entry := new(groupfile.Entry)
	if err := json.Unmarshal(rec.GroupEntry, entry); err != nil {
		r.opts.Log.Warn("group entry in a record cannot be read", "instance", id, "error", err)
		return nil
	}
	return entry
}

// readableEntry is the kept entry, if it can be read again in a group file (S24).
func (r records) readableEntry(key document.GroupKey, id identity.ID) *groupfile.Entry {
	entry := r.keptEntry(id)
	if entry == nil {
		return nil
	}
	if err := groupfile.CheckEntry(key, *entry); err != nil {
		r.opts.Log.Warn("group entry in a record cannot be read", "instance", id, "error", err)
		return nil
	}
	return entry
}

// drainTimeout is how long the drains of a group take that is gone: as long as
// the records of its instances say, or as the configuration does for all.
func (r records) drainTimeout(id fleet.GroupID, cfg *effective.Config) time.Duration {
	for _, in := range r.opts.Cache.Group(id) {
		if entry := r.keptEntry(in.ID); entry != nil && entry.DrainTimeout != nil {
			return entry.DrainTimeout.Std()
		}
	}
	return cfg.Server.DrainTimeout.Std()
}
