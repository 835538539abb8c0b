package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/decisions"
	"nstance.dev/server/fleet"
)

// Options are the settings of a [Cache]; zero fields take the defaults.
type Options struct {
	Log *slog.Logger     // nothing is logged
	Now func() time.Time // time.Now
}

// Cache is what a leader knows. Make one with [Open].
type Cache struct {
	log *slog.Logger
	now func() time.Time
	w   *writer

	mu       sync.RWMutex
	t        tables            // without health
	revision map[string]uint64 // the greatest of each tenant
	byGroup  map[fleet.GroupID]idSet
	byTenant map[string]idSet
	byNonce  map[string]identity.ID
	byVM     map[string]identity.ID
	byPlace  map[string]idSet // by names, in lower case, and addresses
	opNonce  map[string]identity.ID
	errorLog ring[string, ErrorRow]
	decided  ring[fleet.GroupID, decisions.Decision]

	healthMu sync.RWMutex
	health   *table[identity.ID, Health] // a row for each instance
}

// Open reads from the file at path what survives a restart, and begins a new
// file there. It creates the folder, for this user alone, where there is none.
// A file that is damaged, of another version or cannot be written is no error:
// see [Cache.Degraded]. Open fails only without a path or when ctx ends.
//
// The caller holds [LockDir] on the folder, and calls [Cache.Close].
func Open(ctx context.Context, path string, opts Options) (*Cache, error) {
	return open(ctx, path, opts, openFile)
}

func open(ctx context.Context, path string, opts Options, opener opener) (*Cache, error) {
	if path == "" {
		return nil, errors.New("open cache: the path is empty")
	}
	c := &Cache{
		log: cmp.Or(opts.Log, slog.New(slog.DiscardHandler)).With("cache", path),
		now: opts.Now,
		t:   newTables(), revision: map[string]uint64{}, opNonce: map[string]identity.ID{},
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.health = c.t.health
	c.clear()
	c.w = newWriter(c, path, opener)
	old := c.w.salvage(ctx)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open cache %s: %w", path, err)
	}
	maps.Copy(c.t.terms.rows, old.terms)
	maps.Copy(c.t.images.rows, old.images)
	c.w.start()
	return c, nil
}

// clear makes the indexes new.
func (c *Cache) clear() {
	c.byGroup, c.byTenant = make(map[fleet.GroupID]idSet), make(map[string]idSet)
	c.byNonce, c.byVM = make(map[string]identity.ID), make(map[string]identity.ID)
	c.byPlace = make(map[string]idSet)
	c.errorLog = newRing[string](c.t.errors, maxErrors)
	c.decided = newRing[fleet.GroupID](c.t.decisions, maxDecisions)
}

// Reset forgets everything but the terms, the images and the operators: a leader that
// takes over a shard trusts nothing that it learnt of it before. Operators are the
// cluster's, and their registry knows them whoever leads. Revisions go on from where
// they were.
func (c *Cache) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.healthMu.Lock()
	defer c.healthMu.Unlock()
	for _, m := range []interface{ forget() }{
		c.t.groups, c.t.instances, c.health, c.t.files, c.t.keys, c.t.errors, c.t.decisions,
	} {
		m.forget()
	}
	c.clear()
	c.w.add()
}

// Close writes what is not written yet, and ends the writer. The cache goes on
// serving from memory. Close may be called again.
func (c *Cache) Close() error { return c.w.close() }

// Flush waits until all that was written before the call is in the file. It
// returns the error of [Cache.Degraded] at once where there is no file.
func (c *Cache) Flush(ctx context.Context) error { return c.w.flush(ctx) }

// Degraded returns why nothing is mirrored at the moment: nil if all is well.
// It clears by itself once a file can be written again.
func (c *Cache) Degraded() error { return c.w.degraded() }

// Revision returns the greatest revision of a tenant's objects so far. Each tenant has
// its own count: how much happens to one, another does not learn (S12).
func (c *Cache) Revision(tenant string) uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.revision[tenant]
}

// nextRevision needs the lock.
func (c *Cache) nextRevision(tenant string) uint64 {
	c.revision[tenant]++
	return c.revision[tenant]
}

// news tells the writer, where there is something new for it.
func (c *Cache) news(news bool) {
	if news {
		c.w.add()
	}
}

// everyTable calls do with each table, under the lock that guards it.
func (c *Cache) everyTable(do func(mirrored)) {
	c.mu.Lock()
	for _, t := range c.t.guarded() {
		do(t)
	}
	c.mu.Unlock()
	c.healthMu.Lock()
	do(c.health)
	c.healthMu.Unlock()
}

// takeChanges returns what differs from the file, to be written at once.
func (c *Cache) takeChanges() []batch {
	var batches []batch
	c.everyTable(func(t mirrored) {
		if b := t.take(); b != nil {
			batches = append(batches, b)
		}
	})
	return batches
}

// mirrorAll says that there is an empty file; mirrorNothing that there is none.
func (c *Cache) mirrorAll()     { c.everyTable(mirrored.turnOn) }
func (c *Cache) mirrorNothing() { c.everyTable(mirrored.turnOff) }
