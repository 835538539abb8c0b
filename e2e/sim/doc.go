// Package sim runs a whole shard - servers, storage, a provider, machines with
// agents, operators who call - in one process and on a fake clock, breaks it in
// every way that it knows, and checks at each step that the promises of
// docs/invariants.md hold.
//
// The servers are the real ones: packages shard, lease, cache, layout, pki and
// below, put together as package serve does it. Everything around them is a
// fake with teeth: a store that fails before or after it applied a write, a
// provider that loses answers and shows stale lists, a network that cuts one
// direction of a connection, processes that stop for longer than their lease.
// A run lives in a bubble of testing/synctest, so an hour takes a second or so.
//
// What happens in a run is a [Plan]: settings, the weather (how likely each kind
// of fault hits a call) and a list of events. [Generate] makes one from a seed,
// [Parse] reads one that a person wrote; [Run] carries it out and returns what
// was violated; [Shrink] cuts a plan that fails down to the events it needs.
//
// All luck comes from the seed and from what is asked, not from the order in
// which it is asked. What a seed does not fix is the order of goroutines at the
// same moment of fake time. Calls take times of their own to the nanosecond, and
// who waits for a process that is stopped goes on at a moment of its own. Where
// several machines of one plan are deleted, the order in which their goroutines
// run is that in which they get their tokens; on one processor that is the order
// of the plan, so what is to repeat runs on one. Three things are left: the
// operating system may take the processor from a goroutine for a while, two
// timers may be due at the same nanosecond, and a caller may hear one more word
// at the moment in which its stream ends. Of a hundred seeds about two part for
// it. A violation is logged with the whole history of its run, for a seed that
// does not repeat.
//
// Oracles know the truth: they look at what the store accepted and at what
// machines exist, not at what a server believes. Each names the promise that it
// checks.
package sim
