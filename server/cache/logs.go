package cache

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
)

// How many rows a log keeps.
const (
	maxErrors    = 200 // of a tenant
	MaxDecisions = 100 // of a group
)

// ring keeps the last rows of each owner. Whoever has it guards it.
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

// history is what went wrong and what was decided lately.
type history struct {
	news   *news
	tables struct {
		errors    *table[int64, ErrorRow]
		decisions *table[int64, explain.Decision]
	}

	mu      sync.RWMutex
	errors  ring[string, ErrorRow]
	decided ring[fleet.GroupID, explain.Decision]
}

func newHistory(n *news, errs *table[int64, ErrorRow], decisions *table[int64, explain.Decision]) *history {
	h := &history{news: n}
	h.tables.errors, h.tables.decisions = errs, decisions
	h.begin()
	return h
}

// begin makes the rings new. It needs the lock.
func (h *history) begin() {
	h.errors = newRing[string](h.tables.errors, maxErrors)
	h.decided = newRing[fleet.GroupID](h.tables.decisions, MaxDecisions)
}

// reset forgets everything.
func (h *history) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tables.errors.forget()
	h.tables.decisions.forget()
	h.begin()
}

// dropGroup forgets what was decided about a group.
func (h *history) dropGroup(id fleet.GroupID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.news.add(h.decided.drop(id))
}

// AddError notes what went wrong for a tenant. The last 200 are kept.
func (h *history) AddError(e ErrorRow) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.news.add(h.errors.add(e.Tenant, e))
}

// Errors returns what went wrong for a tenant lately, the oldest first.
func (h *history) Errors(tenant string) []ErrorRow {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.errors.of(tenant)
}

// AddDecision notes a decision about a group. The last 100 are kept, until the
// group is dropped.
func (h *history) AddDecision(d explain.Decision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.news.add(h.decided.add(d.Group, d))
}

// Decisions returns the last decisions about a group, the oldest first.
func (h *history) Decisions(g fleet.GroupID) []explain.Decision {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.decided.of(g)
}

// EachDecision calls do with the last decisions about each group that any was made
// about, in the order of the groups, the oldest decision first.
func (h *history) EachDecision(do func([]explain.Decision)) {
	h.mu.RLock()
	groups := slices.SortedFunc(maps.Keys(h.decided.rows), func(a, b fleet.GroupID) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name))
	})
	all := make([][]explain.Decision, len(groups))
	for i, group := range groups {
		all[i] = h.decided.of(group)
	}
	h.mu.RUnlock()
	for _, decisions := range all {
		do(decisions)
	}
}
