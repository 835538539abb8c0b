// Package instances keeps the instances of one shard for one leader's term: of each its
// record in object storage, which is the truth, and its row in the cache. It is the only
// writer of both.
//
//   - [Store.Change] writes the record, then brings the row up to it, then tells
//     [Options.Changed]: in this order, in one call, so that nobody is told of what is not
//     durable, and nothing that is durable is forgotten.
//   - [Store.Note] changes what only the row knows: what the provider shows, how its agent
//     is. It is found out anew by each leader, and nobody is told.
//   - [Store.Load] makes everything known at a take-over, by way of snapshots; [Store.Run]
//     writes these and compares the records with storage as long as the term lasts (F11).
//   - [PendingRemovals] are those that are decided and not on record yet.
//
// Why an instance changes, and what becomes of its machine, is left to the callers.
//
// Writes to one record follow each other, and so do the changes of its row; those to
// different records go in parallel.
//
// Lock order: a group's turn to be decided about; a record's turn (while storage is slow); the
// cache's; the records'. Those of the pending removals and of the fences are taken alone. Nobody is
// called under the mutexes, and Changed in no record's turn.
package instances

import (
	"context"
	"log/slog"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/objectstore"
)

// Options are what a [Store] works with. All are required.
type Options struct {
	Objects objectstore.Store
	Cache   *cache.Cache
	Shard   string
	Term    uint64                  // of the leader: what it writes carries it
	Writes  objectstore.RetryPolicy // has each try of a write prove the lease (S2)
	Now     func() time.Time
	Log     *slog.Logger

	// Changed is told of every change of a record, after the row shows it. It must not
	// wait, for the change's caller waits for it; calls for one instance may overtake each
	// other, so that the row counts and not what is told.
	Changed func(Change)

	// Unreadable is told of a record that is there and makes no sense. It is left alone,
	// and its instance is not taken for absent (F10).
	Unreadable func(ctx context.Context, key string, err error)

	// Over reports whether err ends the leader's term, and ends it if so.
	Over func(err error) bool
}
