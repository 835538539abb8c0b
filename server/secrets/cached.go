package secrets

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxCached bounds the values in a cache; a cluster has a handful.
const maxCached = 256

// Cached wraps a [Store] and remembers values for a while, so that a secret
// delivered to a thousand machines is read once. Its own writes are seen at
// once, those of others after ttl at the latest. Errors are not remembered.
type Cached struct {
	Store
	ttl time.Duration
	now func() time.Time

	mu      sync.Mutex
	entries map[string]cacheEntry
	writes  uint64 // counts own writes: a value read before one is not kept
}

type cacheEntry struct {
	value Secret
	until time.Time
}

// NewCached wraps store. With a ttl of 0 or less nothing is remembered. A nil
// now means time.Now.
func NewCached(store Store, ttl time.Duration, now func() time.Time) *Cached {
	if now == nil {
		now = time.Now
	}
	return &Cached{Store: store, ttl: ttl, now: now, entries: map[string]cacheEntry{}}
}

// Get implements [Store].
func (c *Cached) Get(ctx context.Context, name string) (Secret, error) {
	value, writes, ok := c.lookUp(name)
	if ok {
		return value, nil
	}
	value, err := c.Store.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	c.keep(name, value, writes)
	return value, nil
}

// Put implements [Store].
func (c *Cached) Put(ctx context.Context, name string, value Secret, mode Mode) error {
	defer c.forget(name)
	return c.Store.Put(ctx, name, value, mode)
}

// Delete implements [Store].
func (c *Cached) Delete(ctx context.Context, name string) error {
	defer c.forget(name)
	return c.Store.Delete(ctx, name)
}

func (c *Cached) lookUp(name string) (value Secret, writes uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[name]
	if !ok || !c.now().Before(e.until) {
		delete(c.entries, name)
		return nil, c.writes, false
	}
	return slices.Clone(e.value), c.writes, true
}

func (c *Cached) keep(name string, value Secret, writes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ttl <= 0 || c.writes != writes {
		return
	}
	if len(c.entries) >= maxCached {
		clear(c.entries)
	}
	c.entries[name] = cacheEntry{slices.Clone(value), c.now().Add(c.ttl)}
}

func (c *Cached) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	delete(c.entries, name)
}
