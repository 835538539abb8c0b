package groups

import (
	"sync"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/fleet"
)

// room is what takes room in the quotas of tenants and does not show yet: a burst of calls
// must not pass what one call keeps. The zero value has nothing.
type room struct {
	mu     sync.Mutex
	ids    map[string]map[identity.ID]bool // on-demand instances without a row, by tenant
	groups map[*growth]bool                // being written
}

// growth is by how many machines a call lets a group grow.
type growth struct {
	tenant string
	by     int
}

// grow takes room for a group that is to have the given entry, until [room.grown].
// The file has all edits before this one. It may be asked again with the same g: then
// only the last answer counts. The error is a [*groupfile.QuotaError].
func (r *room) grow(rows *cache.Cache, cfg *effective.Config, file *groupfile.File, id fleet.GroupID, entry groupfile.Entry, g *growth) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g.by, err = r.growth(rows, cfg, file, id, entry)
	if r.groups == nil {
		r.groups = map[*growth]bool{}
	}
	r.groups[g] = true
	return err
}

// fits returns the error that [room.grow] would return, and takes no room.
func (r *room) fits(rows *cache.Cache, cfg *effective.Config, file *groupfile.File, id fleet.GroupID, entry groupfile.Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.growth(rows, cfg, file, id, entry)
	return err
}

// growth is by how many machines a group grows with an entry. The caller holds mu.
func (r *room) growth(rows *cache.Cache, cfg *effective.Config, file *groupfile.File, id fleet.GroupID, entry groupfile.Entry) (int, error) {
	return requests.CheckQuota(cfg, file, id.Tenant, id.Name, entry, func(sizes map[string]int) int {
		return r.machines(rows, id.Tenant, sizes)
	})
}

// grown ends what grow took: the file in force has it, or never will.
func (r *room) grown(g *growth) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.groups, g)
}

// reserve takes room for an on-demand instance, until [room.leave]. The error is a
// [*groupfile.QuotaError].
func (r *room) reserve(rows *cache.Cache, now func() *state, tenant string, id identity.ID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := now() // under the lock: what is no growth any more stands in it
	limit := st.cfg.QuotaOf(tenant).Machines
	if limit == document.NoQuota {
		return nil
	}
	n := r.machines(rows, tenant, st.cfg.SizesOf(st.file, tenant)) + 1
	for g := range r.groups {
		if g.tenant == tenant {
			n += g.by
		}
	}
	if n > limit {
		return &groupfile.QuotaError{Field: "machines", Would: n, Limit: limit}
	}
	if r.ids == nil {
		r.ids = map[string]map[identity.ID]bool{}
	}
	if r.ids[tenant] == nil {
		r.ids[tenant] = map[identity.ID]bool{}
	}
	r.ids[tenant][id] = true
	return nil
}

// leave ends what was taken for an on-demand instance.
func (r *room) leave(tenant string, id identity.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.ids[tenant], id); len(r.ids[tenant]) == 0 {
		delete(r.ids, tenant)
	}
}

// machines counts the machines that a tenant has, or is to have once its groups have
// the given sizes: those of each group, at least its size, but the ones on their way out,
// which are there beside it until they are gone; and on-demand ones, those being made
// included. The caller holds mu.
func (r *room) machines(rows *cache.Cache, tenant string, sizes map[string]int) int {
	reserved := r.ids[tenant]
	n, live := len(reserved), map[string]int{}
	for _, in := range rows.Tenant(tenant) {
		switch {
		case in.State == fleet.Deleted:
		case in.OnDemand:
			if !reserved[in.ID] {
				n++
			}
		case in.State.Leaving():
			n++
		default:
			live[in.Group.Name]++
		}
	}
	for group, size := range sizes {
		live[group] = max(live[group], size)
	}
	for _, machines := range live {
		n += machines
	}
	return n
}
