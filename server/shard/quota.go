package shard

import (
	"sync"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config"
	"nstance.dev/server/fleet"
)

// reservations are what takes room in the quotas of tenants and does not show yet: a
// burst of calls must not pass what one call keeps.
type reservations struct {
	mu     sync.Mutex
	ids    map[string]map[identity.ID]bool // on-demand instances without a row, by tenant
	groups map[*growth]bool                // being written
}

// growth is by how many machines a call lets a group grow.
type growth struct {
	tenant string
	by     int
}

// groupRoom takes room for a group that is to have the given entry, until [Reign.grown].
// The file has all changes before this one. It may be asked again with the same g: then
// only the last answer counts. The error is a [*config.QuotaError].
func (r *Reign) groupRoom(cfg *config.Config, file *config.GroupFile, id fleet.GroupID, entry config.DynamicGroup, g *growth) (err error) {
	r.reserved.mu.Lock()
	defer r.reserved.mu.Unlock()
	g.by, err = config.CheckQuota(cfg, file, id.Tenant, id.Name, entry, func(sizes map[string]int) int {
		return r.machinesFor(id.Tenant, sizes)
	})
	if r.reserved.groups == nil {
		r.reserved.groups = map[*growth]bool{}
	}
	r.reserved.groups[g] = true
	return err
}

// grown ends what groupRoom took: the file in force has it, or never will.
func (r *Reign) grown(g *growth) {
	r.reserved.mu.Lock()
	defer r.reserved.mu.Unlock()
	delete(r.reserved.groups, g)
}

// onDemandRoom takes room for an on-demand instance, until release. The error is a
// [*config.QuotaError].
func (r *Reign) onDemandRoom(tenant string, id identity.ID) (release func(), err error) {
	r.reserved.mu.Lock()
	defer r.reserved.mu.Unlock()
	cfg, file := r.wanted.files() // under the lock: what is no growth any more stands in it
	limit := cfg.QuotaOf(tenant).Machines
	if limit == config.NoQuota {
		return func() {}, nil
	}
	n := r.machinesFor(tenant, cfg.SizesOf(file, tenant)) + 1
	for g := range r.reserved.groups {
		if g.tenant == tenant {
			n += g.by
		}
	}
	if n > limit {
		return nil, &config.QuotaError{Field: "machines", Would: n, Limit: limit}
	}
	if r.reserved.ids == nil {
		r.reserved.ids = map[string]map[identity.ID]bool{}
	}
	if r.reserved.ids[tenant] == nil {
		r.reserved.ids[tenant] = map[identity.ID]bool{}
	}
	r.reserved.ids[tenant][id] = true
	return func() {
		r.reserved.mu.Lock()
		defer r.reserved.mu.Unlock()
		if delete(r.reserved.ids[tenant], id); len(r.reserved.ids[tenant]) == 0 {
			delete(r.reserved.ids, tenant)
		}
	}, nil
}

// machinesFor counts the machines that a tenant has, or is to have once its groups have
// the given sizes: those of each group, at least its size, but the ones on their way out,
// which are there beside it until they are gone; and on-demand ones, those being made
// included. It needs the lock of the reservations.
func (r *Reign) machinesFor(tenant string, sizes map[string]int) int {
	reserved := r.reserved.ids[tenant]
	n, live := len(reserved), map[string]int{}
	for _, in := range r.cache.Tenant(tenant) {
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
