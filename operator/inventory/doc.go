// Package inventory holds what the shards have said of their groups and instances, and
// how much of it may be believed.
//
// A [Shard] is what one shard has said: plain data that answers and events are put into,
// each with the time. A [Store] holds one for each configured shard behind a lock, and
// tells those who want to know what has changed.
//
// That something is there is believed at once. That it no longer exists is believed
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
//
// A [Feed] is the sink of the connections, which understand nothing: it puts what they
// receive into the Store, hands the servers' error events to those who asked for them, and
// tells a [Hub], which goes on at once. Each controller has a source of its own from
// [Hub.Source]: it collects what is new for a while, so that a thousand instances that change
// together are one round of work, and then asks the controller which objects are concerned.
// Who has something to do collects for a shorter time ([nstance.dev/operator/collect.Soon]) than who has something to say
// ([nstance.dev/operator/collect.Later]). What happens before a source is started wakes nobody: a controller looks at all
// its objects when it starts.
//
// [CoolOffs] remembers which groups a provider had no room for, shard by shard, and [CoolOff]
// says how long a refusal counts. What is forgotten with the process costs one more refusal.
package inventory
