// Package shards keeps the operator connected to the servers of its shards.
//
// A [Set] has one [Shard] for each shard of the configuration and follows changes of it
// without a restart. A Shard finds the leader among its addresses, makes sure that it is
// the server of that shard and of no other, holds its watch streams open, lists everything
// after each reconnect and from time to time, and carries out calls. What a [Stream] receives
// it hands to its own sink and forgets: what to believe of it, and above all of what is
// absent, is decided by the inventory.
//
// Pure functions decide: [Status.Next] is the state of a shard, [Classify] says what an
// answer means, [Pause] how long to wait after a failure. The rest carries out.
//
// Shards never wait for each other: each has its own connection, loops and limit on calls
// in flight. Within one, calls that change the same group come one after the other.
//
// What a caller must know: a call on a shard that is not connected fails at once with an
// [*Error]; it is not queued. Every call may be repeated. Whether the shard did what a
// failed call asked for is unknown unless [Class.Answered].
package shards
