package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// Options are the settings of a [Cache]; zero fields take the defaults.
type Options struct {
	Log *slog.Logger     // nothing is logged
	Now func() time.Time // time.Now
}

// Cache is what a leader knows, by subject. Make one with [Open].
type Cache struct {
	*instances
	*reports
	*groups
	*history
	*operators
	*kept
	*revisions

	news *news
	w    *writer
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
	if opts.Now == nil {
		opts.Now = time.Now
	}
	log := cmp.Or(opts.Log, slog.New(slog.DiscardHandler)).With("cache", path)
	c := newCache(opts.Now)
	c.w = newWriter(c.news, path, opener, log, c.sources())
	old := c.w.salvage(ctx)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open cache %s: %w", path, err)
	}
	c.restore(old)
	c.w.start()
	return c, nil
}

// newCache makes an empty one without a writer.
func newCache(now func() time.Time) *Cache {
	t, n, r := newTables(), newNews(), &revisions{of: map[string]uint64{}}
	heard := &reports{news: n, table: t.health}
	return &Cache{
		instances: &instances{
			news: n, now: now, revisions: r, reports: heard, table: t.instances, files: t.files, keys: t.keys, indexes: newIndexes(),
		},
		reports:   heard,
		groups:    &groups{news: n, revisions: r, table: t.groups},
		history:   newHistory(n, t.errors, t.decisions),
		operators: &operators{news: n, table: t.operators, byNonce: map[string]identity.ID{}},
		kept:      &kept{news: n, terms: t.terms, images: t.images},
		revisions: r, news: n,
	}
}

// sources are the tables, for the writer.
func (c *Cache) sources() []source {
	return []source{
		{&c.groups.mu, []mirrored{c.groups.table}},
		{&c.instances.mu, []mirrored{c.instances.table, c.instances.files, c.instances.keys}},
		{&c.operators.mu, []mirrored{c.operators.table}},
		{&c.history.mu, []mirrored{c.history.tables.errors, c.history.tables.decisions}},
		{&c.kept.mu, []mirrored{c.kept.images, c.kept.terms}},
		{&c.reports.mu, []mirrored{c.reports.table}},
	}
}

// Reset forgets everything but the terms, the images and the operators: a leader that
// takes over a shard trusts nothing that it learnt of it before. Operators are the
// cluster's, and their registry knows them whoever leads. Revisions go on from where
// they were. Groups, instances and history are each forgotten in one step, one after another.
func (c *Cache) Reset() {
	c.groups.reset()
	c.instances.reset()
	c.history.reset()
	c.news.add(true)
}

// DropGroup forgets a group and what was decided about it, but none of its
// instances. Dropping one that does not exist does nothing.
func (c *Cache) DropGroup(id fleet.GroupID) {
	c.groups.dropGroup(id)
	c.history.dropGroup(id)
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
