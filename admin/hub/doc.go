// Package hub keeps the latest state of some shards in memory and fans it out: however
// many read, each shard has one stream of each kind.
//
// [Hub.Run] follows the shards. It lists groups and instances, watches them, and lists
// again from time to time: what a stream has missed costs half a minute and no
// correctness. While a shard can't be reached, what was known of it stays, and readers are
// told so.
//
// A [Reader] is told what has changed since it asked last, each object in its newest
// state. So a reader that is slow skips states and never falls behind, and what it costs
// is bounded by the number of objects. Only of what happens, which has no newest state,
// a bounded number waits; the rest is counted.
//
// Lock order: one lock, of the Hub, under which nothing blocks.
package hub
