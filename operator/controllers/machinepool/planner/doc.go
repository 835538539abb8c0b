// Package planner says how many instances of a pool each of its shards gets, and which
// instances go when it shrinks.
//
// A pool has one size, which Kubernetes owns, and several shards, each with a size of
// its own. Four decisions lie between the two:
//
//   - [Plan] brings the sizes of the shards to the size of the pool;
//   - [Rebalance] moves one instance from a shard with too many to one with too few,
//     the new one first;
//   - [Retire] says when the instances of a shard that the pool no longer lists may go;
//   - [Unfilled] sends growth elsewhere where a provider has no room.
//
// The rule behind them is simple: equal parts, and what is left over goes one by one to
// the shards that are listed first ([EqualSplit]). A pool in which nothing else happens
// has exactly that split. What the rule gives way to, in this order: an instance whose
// deletion was requested goes, and no other; a shard that is not fully known loses no
// other; growth goes where there is room.
//
// Whoever asks for a smaller pool may name the machine that is to go, by an annotation on
// it: then that one goes and no other. Plan serves such requests first, in the order that
// [DeletionRequests] gives them, and says for each shard how many more have to go. [Shrink] chooses
// those, and turns the choice into what is written to the shard's group: a size, and the
// list of instances that are retiring.
//
// Size and list belong together. A server that is told a smaller size alone removes the
// instance that it likes least. So the server is told the size and, on top, the retiring
// instances whose deletion it has not counted yet (package shardgroup sums that up); what
// lowers its size is the deletion of a retiring instance, once per instance. An instance
// that goes without being on the list is replaced. [Remediate] chooses machines that a health
// check has given up, a few at a time.
//
// When to write what to the API server is left to the controllers. The only memory is the
// sizes that are given: after a crash the same plan comes out again. Everything here is a function of its arguments,
// changes none of them, and is safe for concurrent use.
package planner
