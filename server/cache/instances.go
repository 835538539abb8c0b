package cache

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// instances are the instances and what each of them has, found by what they are known by.
type instances struct {
	news      *news
	now       func() time.Time
	revisions *revisions
	reports   *reports

	mu    sync.RWMutex
	table *table[identity.ID, *Instance] // the pointed-to never change
	files *details[fileRow]
	keys  *details[publicKey]
	indexes
}

// reset forgets all instances.
func (t *instances) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reports.reset()
	t.table.forget()
	t.files.forget()
	t.keys.forget()
	t.indexes = newIndexes()
}

// Insert adds an instance. It returns [ErrExists] where the id is known, also
// if it is that of a deleted instance.
func (t *instances) Insert(in Instance) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.table.rows[in.ID]; ok {
		return fmt.Errorf("insert instance %s: %w", in.ID, ErrExists)
	}
	in.Revision = t.revisions.next(in.Group.Tenant)
	t.place(&in)
	t.reports.expect(in.ID)
	return nil
}

// Update changes an instance in one step: nobody sees it half changed, and
// nothing changes between what change is given and what it leaves. It returns
// the instance as it is afterwards, and [ErrUnknown] where there is none. If
// change returns an error, nothing changes and Update returns that error.
//
// change runs under the cache's lock: it must be quick, and must not call the
// cache. It can change neither the id nor the group.
func (t *instances) Update(id identity.ID, change func(*Instance) error) (Instance, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, ok := t.table.rows[id]
	if !ok {
		return Instance{}, fmt.Errorf("update instance %s: %w", id, ErrUnknown)
	}
	in := *old
	if err := change(&in); err != nil {
		return *old, err
	}
	in.ID, in.Group, in.Revision = old.ID, old.Group, old.Revision
	if !sameView(old, &in) {
		in.Revision = t.revisions.next(in.Group.Tenant)
	}
	if old.indexed() != in.indexed() || old.places() != in.places() {
		t.indexes.remove(old)
	}
	t.place(&in)
	return in, nil
}

// place sets the row and its entries in the indexes. From then on in belongs to
// the table and never changes.
func (t *instances) place(in *Instance) {
	if in.State == fleet.Deleted && in.DeletedAt.IsZero() {
		in.DeletedAt = t.now()
	}
	t.news.add(t.table.put(in.ID, in))
	if in.listed() {
		t.indexes.add(in)
	}
}

// Remove forgets an instance and all that is known of it. Removing one that is
// not there does nothing.
func (t *instances) Remove(id identity.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if in, ok := t.table.rows[id]; ok {
		t.remove(in)
	}
}

func (t *instances) remove(in *Instance) {
	t.revisions.next(in.Group.Tenant)
	t.indexes.remove(in)
	t.news.add(t.table.drop(in.ID))
	t.news.add(t.files.drop(in.ID))
	t.news.add(t.keys.drop(in.ID))
	t.reports.forget(in.ID)
}

// Purge forgets the deleted instances that were deleted before the given time,
// and returns how many.
func (t *instances) Purge(before time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, in := range t.table.rows {
		if in.State == fleet.Deleted && in.DeletedAt.Before(before) {
			t.remove(in)
			n++
		}
	}
	return n
}

// Instance returns an instance, also a deleted one.
func (t *instances) Instance(id identity.ID) (Instance, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	in, ok := t.table.rows[id]
	if !ok {
		return Instance{}, false
	}
	return *in, true
}

// Group returns the instances of a group, without the deleted ones.
func (t *instances) Group(g fleet.GroupID) []Instance {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.collect(t.byGroup[g])
}

// Fleet returns the instances of a group as decisions see them, without the
// deleted ones.
func (t *instances) Fleet(g fleet.GroupID) []fleet.Instance {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]fleet.Instance, len(t.byGroup[g]))
	for i, id := range t.byGroup[g] {
		out[i] = t.table.rows[id].Instance
	}
	return out
}

// Count returns how many instances of the shard match, without the deleted ones. match
// runs under a lock: it must be quick, and must not call the cache.
func (t *instances) Count(match func(*fleet.Instance) bool) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := 0
	for _, in := range t.table.rows {
		if in.listed() && match(&in.Instance) {
			n++
		}
	}
	return n
}

// Tenant returns the instances of a tenant, without the deleted ones.
func (t *instances) Tenant(tenant string) []Instance {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.collect(t.byTenant[tenant])
}

// All returns the instances of the shard, without the deleted ones.
func (t *instances) All() []Instance { return t.filter((*Instance).listed) }

// Deleted returns the deleted instances of the shard that are still remembered.
func (t *instances) Deleted() []Instance {
	return t.filter(func(in *Instance) bool { return !in.listed() })
}

// ByNonce returns whom a nonce was made for, by its hash: an instance that is
// neither registered nor deleted.
func (t *instances) ByNonce(sha256 string) (identity.ID, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	id, ok := t.byNonce[sha256]
	return id, ok
}

// PlaceTaken reports whether an instance other than the given one has a name, which is
// in lower case, or an address. Deleted instances have none, nor have those whose machine
// has gone: addresses are used again.
func (t *instances) PlaceTaken(nameOrAddress string, except identity.ID) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.ContainsFunc(t.byPlace[nameOrAddress], func(id identity.ID) bool {
		return id != except && t.table.rows[id].Power != fleet.Gone
	})
}

// ByProviderID returns whose machine has an id at the provider: of two that
// claim it, the one that did so last. Deleted instances have none, because
// providers use ids again.
func (t *instances) ByProviderID(providerID string) (identity.ID, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	id, ok := t.byVM[providerID]
	return id, ok
}

// collect needs the lock.
func (t *instances) collect(ids idSet) []Instance {
	out := make([]Instance, len(ids))
	for i, id := range ids {
		out[i] = *t.table.rows[id]
	}
	return out
}

func (t *instances) filter(keep func(*Instance) bool) []Instance {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var ids idSet
	for id, in := range t.table.rows {
		if keep(in) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return t.collect(ids)
}

// Len is how many instances there are, deleted ones included.
func (t *instances) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.table.rows)
}
