// Package distribution says how many instances of a pool each of its shards gets.
//
// A pool has one size, which Kubernetes owns, and several shards, each with a size of
// its own. Four decisions lie between the two:
//
//   - [Plan] brings the sizes of the shards to the size of the pool;
//   - [Rebalance] moves one instance from a shard with too many to one with too few,
//     the new one first;
//   - [Retire] says when the instances of a shard that left the pool may go;
//   - [Unfilled] sends growth elsewhere where a provider has no room.
//
// The rule behind them is simple: equal parts, and what is left over goes one by one to
// the shards that are listed first ([EqualSplit]). A pool in which nothing else happens
// has exactly that split. What the rule gives way to, in this order: an instance that
// somebody named goes, and no other; a shard that nobody can see loses nothing that
// nobody named; growth goes where there is room.
//
// Which instance of a shard goes is left to package victims, when to write what to the
// API server to the controllers. The only memory is the sizes that are given: after a
// crash the same plan comes out again. Everything here is a function of its arguments,
// changes none of them, and is safe for concurrent use.
package distribution
