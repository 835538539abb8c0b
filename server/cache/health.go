package cache

import (
	"nstance.dev/protos/identity"
)

// Report sets what was heard of an instance's agent. It returns false, and
// keeps nothing, for an instance that is not in the cache. It costs little
// more than a look-up: the file hears of it within seconds.
func (c *Cache) Report(id identity.ID, h Health) bool {
	return c.UpdateHealth(id, func(old *Health) { *old = h })
}

// UpdateHealth changes what was heard of an instance's agent in one step. It
// returns false, and does not call change, for an instance that is not in the
// cache. change runs under a lock: it must be quick, and must not call the cache.
func (c *Cache) UpdateHealth(id identity.ID, change func(*Health)) bool {
	c.healthMu.Lock()
	defer c.healthMu.Unlock()
	h, ok := c.health.rows[id]
	if !ok {
		return false
	}
	change(&h)
	if c.health.put(id, h) {
		c.w.later()
	}
	return true
}

// Health returns what was last heard of an instance's agent, which is the zero
// value where that is nothing; false for an instance that is not in the cache.
func (c *Cache) Health(id identity.ID) (Health, bool) {
	c.healthMu.RLock()
	defer c.healthMu.RUnlock()
	h, ok := c.health.rows[id]
	return h, ok
}

// expectReports makes the row of an instance. The file has one when there is something
// in it: after a take-over nothing has been heard of anybody.
func (c *Cache) expectReports(id identity.ID) {
	c.healthMu.Lock()
	defer c.healthMu.Unlock()
	c.health.rows[id] = Health{}
}

func (c *Cache) forgetReports(id identity.ID) {
	c.healthMu.Lock()
	defer c.healthMu.Unlock()
	c.news(c.health.drop(id))
}
