package groups

import (
	"context"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/fleet"
)

// Retire lowers the size of a group by one and names the instance as the one to go, in one
// durable step that a repeat finds done. The group is planned with the name from then on, by
// the next leader too. Of one whose place is gone already ([PlaceGone]) it must not be asked. A group
// of mode demand has no size: it is refused.
func (s *Store) Retire(ctx context.Context, id fleet.GroupID, instance identity.ID, skipDrain bool) error {
	named := groupfile.Retired{ID: instance.String(), At: document.Time{Time: s.opts.Now()}, SkipDrain: skipDrain}
	return refused(s.writer.change(ctx, asker{tenant: id.Tenant, ends: true}, func(cfg *effective.Config, file *groupfile.File) (bool, error) {
		entry, _ := file.Group(id.Tenant, id.Name)
		if i := slices.IndexFunc(entry.Retired, func(one groupfile.Retired) bool { return one.ID == named.ID }); i >= 0 {
			if !skipDrain || entry.Retired[i].SkipDrain {
				return false, nil
			}
			entry.Retired = slices.Clone(entry.Retired)
			entry.Retired[i].SkipDrain = true
			file.Set(id.Tenant, id.Name, entry)
			return true, nil
		}
		g, ok := cfg.Group(file, keyOf(id))
		if !ok {
			return false, requests.ErrGroupNotFound
		}
		if g.Demand != nil {
			return false, &requests.DemandGroupError{Group: id.Name}
		}
		size := max(g.Size-1, 0)
		entry.Size = &size
		entry.Retired = append(s.stillRetired(entry.Retired), named)
		file.Set(id.Tenant, id.Name, entry)
		return true, nil
	}))
}

// retiredFor is how long a retired instance is remembered at least.
const retiredFor = time.Hour

// stillRetired drops those that are long gone.
func (s *Store) stillRetired(list []groupfile.Retired) []groupfile.Retired {
	var keep []groupfile.Retired
	for _, one := range list {
		_, recorded := s.opts.Instances.Record(identity.ID(one.ID))
		if recorded || s.opts.Now().Sub(one.At.Time) < retiredFor {
			keep = append(keep, one)
		}
	}
	return keep
}

// skipsFor is how long a caller's word counts that nothing has to be moved off an instance
// which waits to go, as in a group that is paused: by then it may have work.
const skipsFor = time.Minute

// retired are the instances that callers have named, as decisions see them.
func retired(d *groupfile.Entry, now time.Time) []fleet.Retired {
	if d == nil || len(d.Retired) == 0 {
		return nil
	}
	named := make([]fleet.Retired, len(d.Retired))
	for i, one := range d.Retired {
		named[i] = fleet.Retired{ID: identity.ID(one.ID), SkipDrain: one.SkipDrain && now.Sub(one.At.Time) < skipsFor}
	}
	return named
}
