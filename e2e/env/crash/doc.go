// Package crash breaks clusters of real processes, and looks at what is left of them.
//
// A [World] is a cluster on this box: servers that compete for one shard, machines
// that are agents, and a [Storage] that may be a directory or a server of its own.
// Servers, machines and the storage can be killed, frozen and brought back, sizes
// and the configuration changed, in any order.
//
// The exercises are stories that end well whatever the storage is: a crash in the
// middle of a scale-up, the loss of the leader, its stop for longer than its lease, the loss of its host, a
// restart without the cache, storage that is away. Each takes a test and a storage,
// builds a world of its own, and checks what must hold: as many processes as
// records, of the same instances, no more at any time than wanted, none twice, none
// that came back. They wait for outcomes and never for a stated time to pass, unless
// the story is about that time; how fast things are is measured elsewhere.
package crash
