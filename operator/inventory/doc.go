// Package inventory holds what the shards have said of their groups and instances, and
// how much of it may be believed.
//
// A [Shard] is what one shard has said: plain data that answers and events are put into,
// each with the time. A [Store] holds one for each configured shard behind a lock, and
// tells those who want to know what has changed.
//
// That something is there is believed at once. That it is not there any more is believed
// in two cases only: the shard said that it was deleted, or a complete listing that was
// asked for later lacks it. A listing that lacks too much at once has to be confirmed by a
// second one ([Brake]). While a shard is out of sight nothing that it had is taken for
// gone: [Shard.Presence] says which of the three holds.
//
// Answers and events may come in any order: what is older than what is known is dropped,
// and an instance that was deleted never comes back.
//
// Messages are handed out as they were received, without copies: nobody may change them.
// A Shard is not safe for concurrent use, a Store is. Neither looks at a clock, or
// starts a goroutine.
package inventory
