package cache

import (
	"fmt"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// idSet is a set of ids in their order. Ids grow with time, so that a new one
// nearly always goes to the end.
type idSet []identity.ID

func (s idSet) with(id identity.ID) idSet {
	i, found := slices.BinarySearch(s, id)
	if found {
		return s
	}
	return slices.Insert(s, i, id)
}

func (s idSet) without(id identity.ID) idSet {
	i, found := slices.BinarySearch(s, id)
	if !found {
		return s
	}
	return slices.Delete(s, i, i+1)
}

// Insert adds an instance. It returns [ErrExists] where the id is known, also
// if it is that of a deleted instance.
func (c *Cache) Insert(in Instance) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.t.instances.rows[in.ID]; ok {
		return fmt.Errorf("insert instance %s: %w", in.ID, ErrExists)
	}
	in.Revision = c.nextRevision(in.Group.Tenant)
	c.place(&in)
	c.expectReports(in.ID)
	return nil
}

// Update changes an instance in one step: nobody sees it half changed, and
// nothing changes between what change is given and what it leaves. It returns
// the instance as it is afterwards, and [ErrUnknown] where there is none. If
// change returns an error, nothing changes and Update returns that error.
//
// change runs under the cache's lock: it must be quick, and must not call the
// cache. It can change neither the id nor the group.
func (c *Cache) Update(id identity.ID, change func(*Instance) error) (Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, ok := c.t.instances.rows[id]
	if !ok {
		return Instance{}, fmt.Errorf("update instance %s: %w", id, ErrUnknown)
	}
	in := *old
	if err := change(&in); err != nil {
		return *old, err
	}
	in.ID, in.Group, in.Revision = old.ID, old.Group, old.Revision
	if !sameView(old, &in) {
		in.Revision = c.nextRevision(in.Group.Tenant)
	}
	if old.indexed() != in.indexed() || old.places() != in.places() {
		c.displace(old)
	}
	c.place(&in)
	return in, nil
}

// place sets the row and its entries in the indexes. From then on in belongs to
// the table and never changes.
func (c *Cache) place(in *Instance) {
	if in.State == fleet.Deleted && in.DeletedAt.IsZero() {
		in.DeletedAt = c.now()
	}
	c.news(c.t.instances.put(in.ID, in))
	if !in.listed() {
		return
	}
	c.byGroup[in.Group] = c.byGroup[in.Group].with(in.ID)
	c.byTenant[in.Group.Tenant] = c.byTenant[in.Group.Tenant].with(in.ID)
	if in.claimable() {
		c.byNonce[in.NonceSHA256] = in.ID
	}
	if in.ProviderID != "" {
		c.byVM[in.ProviderID] = in.ID
	}
	for _, at := range in.places() {
		if at != "" {
			c.byPlace[at] = c.byPlace[at].with(in.ID)
		}
	}
}

// displace removes a row's entries from the indexes. A place that another row
// has taken meanwhile is that row's.
func (c *Cache) displace(in *Instance) {
	setOrDrop(c.byGroup, in.Group, c.byGroup[in.Group].without(in.ID))
	setOrDrop(c.byTenant, in.Group.Tenant, c.byTenant[in.Group.Tenant].without(in.ID))
	if c.byNonce[in.NonceSHA256] == in.ID {
		delete(c.byNonce, in.NonceSHA256)
	}
	if c.byVM[in.ProviderID] == in.ID {
		delete(c.byVM, in.ProviderID)
	}
	for _, at := range in.places() {
		if ids, ok := c.byPlace[at]; ok {
			setOrDrop(c.byPlace, at, ids.without(in.ID))
		}
	}
}

// setOrDrop keeps no empty entries, which would pile up.
func setOrDrop[K comparable, S ~[]E, E any](m map[K]S, k K, s S) {
	if len(s) == 0 {
		delete(m, k)
		return
	}
	m[k] = s
}

// Remove forgets an instance and all that is known of it. Removing one that is
// not there does nothing.
func (c *Cache) Remove(id identity.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if in, ok := c.t.instances.rows[id]; ok {
		c.remove(in)
	}
}

func (c *Cache) remove(in *Instance) {
	c.nextRevision(in.Group.Tenant)
	c.displace(in)
	c.news(c.t.instances.drop(in.ID))
	c.news(c.t.files.drop(in.ID))
	c.news(c.t.keys.drop(in.ID))
	c.forgetReports(in.ID)
}

// Purge forgets the deleted instances that were deleted before the given time,
// and returns how many.
func (c *Cache) Purge(before time.Time) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, in := range c.t.instances.rows {
		if in.State == fleet.Deleted && in.DeletedAt.Before(before) {
			c.remove(in)
			n++
		}
	}
	return n
}

// Instance returns an instance, also a deleted one.
func (c *Cache) Instance(id identity.ID) (Instance, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	in, ok := c.t.instances.rows[id]
	if !ok {
		return Instance{}, false
	}
	return *in, true
}

// Group returns the instances of a group, without the deleted ones.
func (c *Cache) Group(g fleet.GroupID) []Instance {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.collect(c.byGroup[g])
}

// Fleet returns the instances of a group as decisions see them, without the
// deleted ones.
func (c *Cache) Fleet(g fleet.GroupID) []fleet.Instance {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([]fleet.Instance, len(c.byGroup[g]))
	for i, id := range c.byGroup[g] {
		out[i] = c.t.instances.rows[id].Instance
	}
	return out
}

// Count returns how many instances of the shard match, without the deleted ones. match
// runs under a lock: it must be quick, and must not call the cache.
func (c *Cache) Count(match func(*fleet.Instance) bool) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := 0
	for _, in := range c.t.instances.rows {
		if in.listed() && match(&in.Instance) {
			n++
		}
	}
	return n
}

// Tenant returns the instances of a tenant, without the deleted ones.
func (c *Cache) Tenant(tenant string) []Instance {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.collect(c.byTenant[tenant])
}

// All returns the instances of the shard, without the deleted ones.
func (c *Cache) All() []Instance { return c.filter((*Instance).listed) }

// Deleted returns the deleted instances of the shard that are still remembered.
func (c *Cache) Deleted() []Instance {
	return c.filter(func(in *Instance) bool { return !in.listed() })
}

// ByNonce returns whom a nonce was made for, by its hash: an instance that is
// neither registered nor deleted.
func (c *Cache) ByNonce(sha256 string) (identity.ID, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	id, ok := c.byNonce[sha256]
	return id, ok
}

// PlaceTaken reports whether an instance other than the given one has a name, which is
// in lower case, or an address. Deleted instances have none, nor have those whose machine
// has gone: addresses are used again.
func (c *Cache) PlaceTaken(nameOrAddress string, except identity.ID) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.ContainsFunc(c.byPlace[nameOrAddress], func(id identity.ID) bool {
		return id != except && c.t.instances.rows[id].Power != fleet.Gone
	})
}

// ByProviderID returns whose machine has an id at the provider: of two that
// claim it, the one that did so last. Deleted instances have none, because
// providers use ids again.
func (c *Cache) ByProviderID(providerID string) (identity.ID, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	id, ok := c.byVM[providerID]
	return id, ok
}

// collect needs the lock.
func (c *Cache) collect(ids idSet) []Instance {
	out := make([]Instance, len(ids))
	for i, id := range ids {
		out[i] = *c.t.instances.rows[id]
	}
	return out
}

func (c *Cache) filter(keep func(*Instance) bool) []Instance {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var ids idSet
	for id, in := range c.t.instances.rows {
		if keep(in) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return c.collect(ids)
}

// Len is how many instances there are, deleted ones included.
func (c *Cache) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.t.instances.rows)
}
