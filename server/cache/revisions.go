package cache

import "sync"

// revisions count what happens to the objects of each tenant.
type revisions struct {
	mu sync.Mutex
	of map[string]uint64 // the greatest of each tenant
}

// Revision returns the greatest revision of a tenant's objects so far. Each tenant has
// its own count: how much happens to one, another does not learn (S12). Whoever reads a
// revision and then lists sees the change that it counts.
func (r *revisions) Revision(tenant string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[tenant]
}

// next counts one change more. Its caller makes the change under the lock that it
// already has.
func (r *revisions) next(tenant string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[tenant]++
	return r.of[tenant]
}
