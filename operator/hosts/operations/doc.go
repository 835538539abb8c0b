// Package operations decides what becomes of MachineOperations: who may execute one and when, how
// long it may take, what a fan-out makes of a selector, and when an object is deleted.
//
// [Decide] is pure: one operation, its machine and the others of that machine give one [Decision],
// which is what status and labels are to say. [DecideFanOut] does the same for an operation with a
// selector, which has one child for each machine. Both are level-triggered: a pass that is repeated,
// or comes after a crash, decides what is left to do.
//
// The states and the steps between them stand in state.go. An executor takes an operation with
// [Claim] and ends it with [Finish]; both return the status to be written, and whoever writes it must
// have it refused if the object has changed since it was read: so one claim wins, and a state that is
// final stays.
//
// An operation that reboots a machine or switches its power waits until the instance is on hold at its
// shard, so that no health rule takes it for a failure. hold.go says for which operations, and what becomes of the
// hold when they end: [BeginHold] before it is asked for, [KeepsOff] before the end is written, [EndsHold] after it.
//
// What a caller must know:
//
//   - An operation may be claimed by the executor that its label names, and by no other. The label is
//     given when it is the operation's turn ([Turn]), so executors need not know of each other.
//   - [Running] has the operations whose label was given and that have not finished. It is asked
//     before a label is given, in one step with noting it, because a cache may show neither the label
//     that was just written nor the operation that it was written to.
//
// It leaves to others how objects are read and written, and the executing.
package operations
