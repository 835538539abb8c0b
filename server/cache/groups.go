package cache

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"

	"nstance.dev/server/fleet"
)

// groups are the wanted states.
type groups struct {
	news      *news
	revisions *revisions

	mu    sync.RWMutex
	table *table[fleet.GroupID, Group]
}

// PutGroup sets a group, whose [Group.Revision] grows if anything but the
// etag has changed.
func (t *groups) PutGroup(g Group) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, ok := t.table.rows[g.ID]
	same := old
	same.ETag, g.Revision = g.ETag, old.Revision
	if !ok || !reflect.DeepEqual(same, g) {
		g.Revision = t.revisions.next(g.ID.Tenant)
	}
	t.news.add(t.table.put(g.ID, g))
}

// GroupRow returns a group.
func (t *groups) GroupRow(id fleet.GroupID) (Group, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	g, ok := t.table.rows[id]
	return g, ok
}

// Groups returns all groups, by tenant and name.
func (t *groups) Groups() []Group {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]Group, 0, len(t.table.rows))
	for _, g := range t.table.rows {
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

// dropGroup forgets a group. Dropping one that does not exist does nothing.
func (t *groups) dropGroup(id fleet.GroupID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.table.rows[id]; ok {
		t.revisions.next(id.Tenant)
	}
	t.news.add(t.table.drop(id))
}

// reset forgets all groups.
func (t *groups) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.table.forget()
}
