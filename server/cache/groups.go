package cache

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"nstance.dev/server/fleet"
)

// PutGroup sets a group, whose [Group.Revision] grows if anything but the
// etag has changed.
func (c *Cache) PutGroup(g Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, ok := c.t.groups.rows[g.ID]
	same := old
	same.ETag, g.Revision = g.ETag, old.Revision
	if !ok || !reflect.DeepEqual(same, g) {
		g.Revision = c.nextRevision(g.ID.Tenant)
	}
	c.news(c.t.groups.put(g.ID, g))
}

// GroupRow returns a group.
func (c *Cache) GroupRow(id fleet.GroupID) (Group, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	g, ok := c.t.groups.rows[id]
	return g, ok
}

// Groups returns all groups, by tenant and name.
func (c *Cache) Groups() []Group {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([]Group, 0, len(c.t.groups.rows))
	for _, g := range c.t.groups.rows {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return compareGroups(a.ID, b.ID)
	})
	return out
}

// compareGroups orders groups by tenant and name.
func compareGroups(a, b fleet.GroupID) int {
	return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Name, b.Name))
}

// DropGroup forgets a group and what was decided about it, but none of its
// instances. Dropping one that is not there does nothing.
func (c *Cache) DropGroup(id fleet.GroupID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.t.groups.rows[id]; ok {
		c.nextRevision(id.Tenant)
	}
	c.news(c.t.groups.drop(id))
	c.news(c.decided.drop(id))
}
