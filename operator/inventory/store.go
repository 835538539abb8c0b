package inventory

import (
	"maps"
	"slices"
	"sync"
)

// Store holds the shards of a configuration. It is safe for concurrent use; no call
// waits for anything but the others' short work on the same maps.
type Store struct {
	tenant string
	notify func(shard string, changes []Change)

	mu     sync.RWMutex
	shards map[string]*Shard
}

// NewStore returns an empty store. After each Update that changed something notify is
// called with the changes, by the goroutine that made them and without the lock: it may
// read the store, and must not wait. Calls for one shard come in the order of the updates
// if these are made by one goroutine, as the streams of a shard should. A nil notify is
// none.
func NewStore(tenant string, notify func(shard string, changes []Change)) *Store {
	if notify == nil {
		notify = func(string, []Change) {}
	}
	return &Store{tenant: tenant, notify: notify, shards: map[string]*Shard{}}
}

// Configure sets which shards there are. What is known of those that stay is kept; those
// that are no longer named are forgotten, and nothing follows from that for their
// instances.
func (st *Store) Configure(names []string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	maps.DeleteFunc(st.shards, func(name string, _ *Shard) bool { return !slices.Contains(names, name) })
	for _, name := range names {
		if st.shards[name] == nil {
			st.shards[name] = NewShard(st.tenant)
		}
	}
}

// Update lets change work on one shard, and passes its answer on. It does nothing for a
// shard that is not configured: an answer that came late.
func (st *Store) Update(shard string, change func(*Shard) []Change) {
	if changes := st.update(shard, change); len(changes) > 0 {
		st.notify(shard, changes)
	}
}

func (st *Store) update(shard string, change func(*Shard) []Change) []Change {
	st.mu.Lock()
	defer st.mu.Unlock()
	s := st.shards[shard]
	if s == nil {
		return nil
	}
	return change(s)
}

// Read lets look read one shard; false, without a call, if it is not configured. look
// must neither change the shard nor keep it.
func (st *Store) Read(shard string, look func(*Shard)) bool {
	st.mu.RLock()
	defer st.mu.RUnlock()
	s := st.shards[shard]
	if s == nil {
		return false
	}
	look(s)
	return true
}

// Names returns the configured shards, sorted.
func (st *Store) Names() []string {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return slices.Sorted(maps.Keys(st.shards))
}

// Find returns the shard that has an instance; "" if none is known to.
func (st *Store) Find(id string) string {
	st.mu.RLock()
	defer st.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(st.shards)) {
		if st.shards[name].Presence(id) == Present {
			return name
		}
	}
	return ""
}
