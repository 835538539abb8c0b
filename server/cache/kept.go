package cache

import (
	"maps"
	"sync"
)

// kept are the facts that a restart does not forget.
type kept struct {
	news *news

	mu     sync.RWMutex
	terms  *table[string, uint64]
	images *table[string, Image]
}

// restore takes over what the process before left. It is for the start alone.
func (t *kept) restore(old survivors) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.Copy(t.terms.rows, old.terms)
	maps.Copy(t.images.rows, old.images)
}

// PutTerm remembers the term in which this server last held a lock.
func (t *kept) PutTerm(lock string, term uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news.add(t.terms.put(lock, term))
}

// Term returns the term in which this server last held a lock, also before its
// last restart; 0 if that is not known.
func (t *kept) Term(lock string) uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.terms.rows[lock]
}

// PutImage remembers the answer to an image's look-up.
func (t *kept) PutImage(i Image) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news.add(t.images.put(i.Key, i))
}

// Image returns the answer to the last look-up of an image, also of one before
// the last restart.
func (t *kept) Image(key string) (Image, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	i, ok := t.images.rows[key]
	return i, ok
}
