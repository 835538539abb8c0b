// Package shardclient connects to the servers of shards as an operator.
//
// [Resolve] turns flags, environment and context into a [Selection]: which
// shards, at which addresses, with which identity. [Dial] makes of each a [Conn],
// on which the generated client of the operator API works like on any other
// gRPC connection.
//
// What a Conn adds: a shard has a leader and standbys, and only the leader
// answers. A call tries every address, follows a standby's pointer to its
// leader, and starts over with growing pauses while nobody serves, for as long
// as its context or [Options.Patience] lasts. Every call may be repeated but one,
// the creation of an instance without an id, which is sent at most once.
//
// The package prints nothing and takes no decision about groups or instances.
package shardclient
