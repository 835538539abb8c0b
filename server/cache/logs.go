package cache

import (
	"nstance.dev/server/decisions"
	"nstance.dev/server/fleet"
)

// How many rows a log keeps.
const (
	maxErrors    = 200 // of a tenant
	maxDecisions = 100 // of a group
)

// ring keeps the last rows of each owner. The cache's lock guards it.
type ring[O comparable, V any] struct {
	table *table[int64, V]
	limit int
	rows  map[O][]int64 // sequence numbers, the oldest first
	last  *int64
}

func newRing[O comparable, V any](t *table[int64, V], limit int) ring[O, V] {
	return ring[O, V]{t, limit, make(map[O][]int64), new(int64)}
}

func (r ring[O, V]) add(owner O, v V) (news bool) {
	*r.last++
	rows := r.rows[owner]
	if len(rows) == r.limit {
		r.table.drop(rows[0])
		copy(rows, rows[1:])
		rows = rows[:r.limit-1]
	}
	r.rows[owner] = append(rows, *r.last)
	return r.table.put(*r.last, v)
}

func (r ring[O, V]) of(owner O) []V {
	out := make([]V, len(r.rows[owner]))
	for i, seq := range r.rows[owner] {
		out[i] = r.table.rows[seq]
	}
	return out
}

func (r ring[O, V]) drop(owner O) (news bool) {
	for _, seq := range r.rows[owner] {
		news = r.table.drop(seq) || news
	}
	delete(r.rows, owner)
	return news
}

// AddError notes what went wrong for a tenant. The last 200 are kept.
func (c *Cache) AddError(e ErrorRow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.news(c.errorLog.add(e.Tenant, e))
}

// Errors returns what went wrong for a tenant lately, the oldest first.
func (c *Cache) Errors(tenant string) []ErrorRow {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.errorLog.of(tenant)
}

// AddDecision notes a decision about a group. The last 100 are kept, until the
// group is dropped.
func (c *Cache) AddDecision(d decisions.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.news(c.decided.add(d.Group, d))
}

// Decisions returns the last decisions about a group, the oldest first.
func (c *Cache) Decisions(g fleet.GroupID) []decisions.Decision {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.decided.of(g)
}
