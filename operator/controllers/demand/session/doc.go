// Package session keeps one session of demand mode with each shard: the stream on which the
// operator says what its cluster needs, and the shard what becomes of machines.
//
// [Sessions] opens a session with the leader of each shard, opens it again with growing pauses
// when it ends, sends what the rest of the operator has to say, and hands what the shard says
// to [Handlers]. It decides nothing about capacity, Nodes or objects.
//
// What waits to be sent is bounded however long a shard does not read: a roll-up replaces the
// one before, and an answer without room is dropped, for the shard asks again. What waits to be
// handled is bounded by the number of machines, profiles and instructions, since of each of
// them only the newest message waits. A request for a machine's bootstrap data is handled at
// once, the rest by at most [Options.Dispatch] handlers at a time for each shard, and never two
// at a time for one machine, profile or instruction.
//
// What a caller must know: a message is lost when the session ends before it was sent, and
// nothing is sent twice. A new session begins with a snapshot of the machines; [Handlers] say
// when it is whole, and when to say all that the shard has to know. Handlers are called from
// many goroutines. The context of an instruction lasts as long as the operator leads and the
// shard is configured, so that a drain survives a reconnect; that of all others ends with the
// session, and the next session begins when they have returned.
package session
