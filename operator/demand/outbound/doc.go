// Package outbound decides what the operator's end of a session sends next, and when it is time
// for a roll-up.
//
// A [Queue] has two kinds of messages with two rules for what is dropped. An answer to the
// shard that finds no room is dropped: the shard asks again, and what is older was asked for
// earlier. A roll-up is complete in itself, so a newer one takes the place of one that waits.
// So what waits is bounded however long a shard does not read.
//
// A [Pace] says when a roll-up is due: when a session begins, soon after something has changed,
// some time after the shard held one back, and otherwise at an interval.
//
// The package is pure: nothing waits or reads a clock, and nothing is safe for concurrent use.
// What a roll-up is made of and how it travels is left to others.
package outbound
