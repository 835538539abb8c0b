package hosts

import (
	"sync"

	"nstance.dev/protos/identity"
)

// watchers are those who follow the machines of a tenant.
type watchers struct {
	mu     sync.Mutex
	all    map[*watcher]struct{}
	closed bool
}

// watcher follows the machines of a tenant. What has changed of a machine while the watcher
// was busy is told once, as it is by then, so that a slow one falls behind and misses nothing.
type watcher struct {
	tenant string
	wake   chan struct{} // has room for one

	// Of the watchers' lock.
	changed []identity.ID
	pending map[identity.ID]bool // those in changed
	over    bool                 // the term is
}

func (w *watchers) add(tenant string) *watcher {
	one := &watcher{tenant: tenant, wake: make(chan struct{}, 1), pending: map[identity.ID]bool{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	one.over = w.closed
	if w.closed {
		one.wake <- struct{}{}
		return one
	}
	w.all[one] = struct{}{}
	return one
}

func (w *watchers) remove(one *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, one)
}

// tell notes that something has changed of a machine.
func (w *watchers) tell(tenant string, id identity.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all {
		if one.tenant == tenant && !one.pending[id] {
			one.pending[id] = true
			one.changed = append(one.changed, id)
			one.signal()
		}
	}
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take returns whose machines have changed since the last call, and whether the term is over.
func (w *watchers) take(one *watcher) (changed []identity.ID, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed = one.changed
	one.changed = nil
	clear(one.pending)
	return changed, one.over
}

// close ends all watches.
func (w *watchers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for one := range w.all {
		one.over = true
		one.signal()
		delete(w.all, one)
	}
}
