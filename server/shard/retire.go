package shard

import (
	"context"
	"nstance.dev/server/bucket"
	"nstance.dev/server/refusal"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/fleet"
)

// retire lowers the size of an instance's group by one and names the instance
// as the one to go, in one durable step that a repeat finds done (A3 of the API).
// The group is planned with the name from then on, by the next leader too.
func (r *Reign) retire(ctx context.Context, in cache.Instance, skipDrain bool) error {
	if placeGone(in) {
		return nil
	}
	tenant, key := in.Group.Tenant, in.Group.Name
	named := config.Retired{ID: in.ID.String(), At: config.Time{Time: r.now()}, SkipDrain: skipDrain}
	err := r.wanted.change(ctx, asker{tenant: tenant, ends: true}, func(cfg *config.Config, file *config.GroupFile) (bool, error) {
		entry, _ := file.Group(tenant, key)
		if i := slices.IndexFunc(entry.Retired, func(one config.Retired) bool { return one.ID == named.ID }); i >= 0 {
			if !skipDrain || entry.Retired[i].SkipDrain {
				return false, nil
			}
			entry.Retired = slices.Clone(entry.Retired)
			entry.Retired[i].SkipDrain = true
			file.Set(tenant, key, entry)
			return true, nil
		}
		eff, ok := cfg.Group(file, config.GroupKey{Tenant: tenant, Group: key})
		if !ok {
			return false, config.ErrGroupNotFound
		}
		size := max(eff.Size-1, 0)
		entry.Size = &size
		entry.Retired = append(r.stillRetired(entry.Retired), named)
		file.Set(tenant, key, entry)
		return true, nil
	})
	if err == nil {
		r.Enqueue(in.Group)
		r.publishGroup(in.Group)
	}
	return err
}

// placeGone reports whether a smaller size has taken the instance's place already.
// One that leaves for another reason is made up for, unless its place goes too.
func placeGone(in cache.Instance) bool {
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

// retiredFor is how long a retired instance is remembered at least.
const retiredFor = time.Hour

// stillRetired drops those that are long gone.
func (r *Reign) stillRetired(list []config.Retired) []config.Retired {
	var keep []config.Retired
	for _, one := range list {
		_, recorded := r.instances.Record(identity.ID(one.ID))
		if recorded || r.now().Sub(one.At.Time) < retiredFor {
			keep = append(keep, one)
		}
	}
	return keep
}

// skipsFor is how long a caller's word counts that nothing has to be moved off an instance
// which waits to go, as in a group that is paused: by then it may have work.
const skipsFor = time.Minute

// retired are the instances that callers have named, as decisions see them.
func retired(d *config.DynamicGroup, now time.Time) []fleet.Retired {
	if d == nil || len(d.Retired) == 0 {
		return nil
	}
	named := make([]fleet.Retired, len(d.Retired))
	for i, one := range d.Retired {
		named[i] = fleet.Retired{ID: identity.ID(one.ID), SkipDrain: one.SkipDrain && now.Sub(one.At.Time) < skipsFor}
	}
	return named
}

// replaceNamed makes a caller's wish durable that an instance be replaced, and
// deleted once that is done (S15). Repeats change nothing.
func (r *Reign) replaceNamed(in cache.Instance, skipDrain bool) error {
	if in.OnDemand {
		return refusal.New(refusal.FailedPrecondition, "NOT_REPLACED", "instance %s was made on demand: nothing replaces it; delete it without replace_first", in.ID)
	}
	switch {
	case in.State.Leaving() && in.Removal.Revocable():
		return r.confirmRemoval(in.ID)
	case in.State.Leaving():
		return nil
	}
	_, err := r.instances.Change(r.ctx, in.ID, func(rec *bucket.InstanceRecord) error {
		if rec.Replace == nil || skipDrain && !rec.Replace.SkipDrain {
			rec.Replace = &bucket.ReplaceRequest{RequestedAt: bucket.At(r.now()), SkipDrain: skipDrain}
		}
		return nil
	})
	return err
}
