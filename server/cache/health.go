package cache

import (
	"sync"

	"nstance.dev/protos/identity"
)

// reports are what was heard of the agents: the table that changes most often. It has a
// row for each instance.
type reports struct {
	news *news

	mu    sync.RWMutex
	table *table[identity.ID, Health]
}

// Report sets what was heard of an instance's agent. It returns false, and
// keeps nothing, for an instance that is not in the cache. It costs little
// more than a look-up: the file hears of it within seconds.
func (t *reports) Report(id identity.ID, h Health) bool {
	return t.UpdateHealth(id, func(old *Health) { *old = h })
}

// UpdateHealth changes what was heard of an instance's agent in one step. It
// returns false, and does not call change, for an instance that is not in the
// cache. change runs under a lock: it must be quick, and must not call the cache.
func (t *reports) UpdateHealth(id identity.ID, change func(*Health)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.table.rows[id]
	if !ok {
		return false
	}
	change(&h)
	t.news.later(t.table.put(id, h))
	return true
}

// Health returns what was last heard of an instance's agent, which is the zero
// value where that is nothing; false for an instance that is not in the cache.
func (t *reports) Health(id identity.ID) (Health, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	h, ok := t.table.rows[id]
	return h, ok
}

// expect makes the row of an instance. The file has one when there is something
// in it: after a take-over nothing has been heard of anybody.
func (t *reports) expect(id identity.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.table.rows[id] = Health{}
}

// forget drops the row of an instance.
func (t *reports) forget(id identity.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news.add(t.table.drop(id))
}

// reset forgets all reports.
func (t *reports) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.table.forget()
}
