// Package demand decides what a shard buys, keeps and gives back so that the clusters of its tenants
// have the capacity that they ask for.
//
// A cluster says in a roll-up what it needs in all: rows of amounts with requirements, without a
// number of Pods or machines. An [Engine] holds the needs of all clusters, all machines, and the
// offers that machines can be bought from. [Engine.Step] takes in what happened, and returns what to
// do, each [Action] with its reason:
//
//  1. Credit: the needs of a cluster draw from the machines that are bound to it, each from the first
//     one in keep order that suits it. What is left over is a deficit.
//  2. Acquire: deficits take idle machines, then buy from offers, all clusters in one order: priority,
//     then age.
//  3. Preempt: what is still missing may take machines from needs of lower priority.
//  4. Reclaim: machines that no need draws from are drained, and after a while released.
//  5. Consolidate, where a group asks for it and nothing else is to be done: the least used machines are
//     replaced by a cheaper set, which is bought first.
//
// Machines are shared by the needs of a cluster, in one order that only an event changes; new ones are
// last. So drawing again from what was bought gives what was bought for, and at constant demand the
// engine acts once and is silent from then on.
//
// What the package leaves to others: reading roll-ups off the wire and checking them, computing keys,
// making and ending machines, telling operators, keeping records. Callers hand events in from one
// goroutine, in a fixed order; an Engine is not safe for concurrent use. Inside a step, workers
// compute clusters beside each other; none outlives the call, and their number changes no result.
// There is no clock, I/O or randomness: equal calls give equal results on every architecture.
//
// An action with disposition [Execute] counts as done from the moment of its decision. Who cannot
// begin it says so by [Dropped]; how it ends is told by [Changed] and [Gone].
//
// A row that asks for spreading by host name, or against itself on one host, is credited as if it did
// not: rows of their own, with a Stuck number, stand for the Pods that find no place.
package demand
