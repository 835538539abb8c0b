// Package operations brings MachineOperations about: it says what each waits for, labels it for its
// executor when it is its turn, makes the operations of the machines that a selector selects, ends those
// that nobody takes or whose executor falls silent, and deletes what has outlived its time.
//
// Package hosts/operations decides; this one reads, writes, and tells. Every write is refused if the
// object has changed since it was read, so an executor's word that came first stands.
//
// Executors watch for operations whose label names them, claim one by its status, and end it; they write
// nothing else of it. What an executor leaves out, such as the deadline, follows from the rest.
//
// An operation that this process carries out itself, and that looks like a failure to the servers, begins once the
// instance of its machine is on hold at its shard: the hold is asked for before the claim, noted in condition OnHold
// before that, and ended after the end of the operation, by whoever leads then. Without the hold it does not begin.
//
// It owns of an operation: the labels machine, executor and parent-uid, conditions Claimed, OnHold and Finished,
// and the state as long as nobody has claimed it. Of a claimed one it writes the end only where the
// executor is lost or the machine is another one. Of a machine it owns status.operations.
//
// Rights: machineoperations list watch create patch delete, their status patch; hostmachines list watch, their status patch.
package operations
