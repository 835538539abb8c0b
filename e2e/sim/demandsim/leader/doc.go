// Package leader is a model of a shard's leader for simulations of demand mode: it feeds the real
// engine, package demand of the server, and carries out what that decides.
//
// What outlives a process is a [Store] of records: which machines there are, for whom each was
// bound, how far its drain is. A [Leader] is one process. Its memory, the engine included, is lost
// with it; the next one makes an engine of the records and of what the provider says, and resumes
// creates and drains. Each effect is durable in the record first and proves the leadership's term, so
// that a leader which does not know yet that it is deposed changes nothing.
//
// A leader may be told to end after a number of effects, in the middle of a step: each point between
// two effects is one at which a process can die.
//
// It is for one goroutine, and its clock is the caller's.
package leader
