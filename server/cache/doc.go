// Package cache holds what a shard's leader knows: its groups, its instances,
// how they are doing, and what was decided about them lately.
//
// Nothing here is the truth. What must not be lost is in object storage, at the
// provider, or with the agents, and a leader that takes over calls [Cache.Reset]
// and fills the cache anew from there. So the cache may be lost at any moment:
// that costs time and never changes a decision.
//
// All reads and writes go to tables in memory, and return at once. A single
// goroutine mirrors what has changed into a SQLite file behind them, in batches:
// many changes of a row between two batches are one write. The file is for the
// few facts that a restart should not forget - the terms of the locks and the
// images found last - and for people, who can look at all the rest with any
// SQLite client. Opening a cache reads those facts and begins a new file.
//
// A file that cannot be written - a full disk, a damaged file, no permission -
// is logged once and shows in [Cache.Degraded]. The cache works on from memory,
// and every so often tries to begin a new file with everything it knows.
//
// All methods are safe for concurrent use. Values that come out are copies, but
// for the byte slices in them, which are shared: replace them, never write into
// them. Slices come out in the order of ids or, for logs, of time.
//
// Each subject has its tables and the mutex that guards them: groups, instances (with
// their files and public keys), reports, history, operators, and the facts that are kept
// beyond a restart.
//
// Lock order: that of the instances or of the groups, that of the reports, that of the
// revisions. Each other one, and the writer's, is taken alone. The functions that callers
// give to [Cache.Update], [Cache.UpdateHealth] and [Cache.Count] run under the lock of
// their table: they look at what they are given and at nothing else.
package cache
