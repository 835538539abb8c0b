package shard

import (
	"sync"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config"
	"nstance.dev/server/fleet"
)

// reservations are the on-demand instances that are being made and may have no row
// yet, by tenant: a burst of calls must not pass the quota that one call keeps.
type reservations struct {
	mu  sync.Mutex
	ids map[string]map[identity.ID]bool
}

// onDemandRoom takes room in the tenant's quota for an on-demand instance, until
// release. The error is a [*config.QuotaError].
func (r *Reign) onDemandRoom(tenant string, id identity.ID) (release func(), err error) {
	cfg, file := r.wanted.files()
	limit := cfg.QuotaOf(tenant).Machines
	if limit == config.NoQuota {
		return func() {}, nil
	}
	r.reserved.mu.Lock()
	defer r.reserved.mu.Unlock()
	if n := cfg.SizesOf(file, tenant) + r.countBeside(tenant, r.reserved.ids[tenant]) + 1; n > limit {
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

// besideSizes counts the machines of a tenant that are in no group's size: on-demand
// ones, those being made included, and managed ones on their way out.
func (r *Reign) besideSizes(tenant string) int {
	r.reserved.mu.Lock()
	defer r.reserved.mu.Unlock()
	return r.countBeside(tenant, r.reserved.ids[tenant])
}

func (r *Reign) countBeside(tenant string, reserved map[identity.ID]bool) int {
	n := len(reserved)
	for _, in := range r.cache.Tenant(tenant) {
		if in.State != fleet.Deleted && (in.OnDemand && !reserved[in.ID] || !in.OnDemand && in.State.Leaving()) {
			n++
		}
	}
	return n
}
