// Package demandloop carries out what the engine of package demand decides for one shard, for as long as
// one leader's term lasts, and tells the engine what has become of it.
//
// One goroutine, that of [Loop.Run], owns the engine and all that the loop knows. Whoever has something to
// say to it puts that into its mailbox:
//
//   - [Link] is what an operator's session asks of the loop, in plain types: the wire contract, streams and
//     certificates are known to package demandapi alone. [Link.Post] waits while the mailbox is full.
//   - [Loop.Changed] and what is like it wake the loop up and never wait. They say which machine to look
//     at, not what has become of it: that follows from its record and its life, so that what comes
//     twice, late or in another order changes nothing.
//
// A cycle begins when there is something new, 100 ms after the last one at the soonest, or when the
// engine asked for it, and every ten seconds. What it decides is handed to workers: each writes the
// record of the machine first, by the moves of package binding, and then does what has to be done. One
// machine has one worker at a time, and is looked at again when that one is done. What could not be begun
// the engine is told as dropped; it decides again.
//
// What takes longer than a worker's thirty seconds is no worker's: that a machine waits for what it
// takes to join, for its Node, for the end of its drain, stands in its record, and the loop goes on with
// it when it hears of it or when its time is over. So does the next leader.
//
// A cluster is named by its tenant, everywhere in this package: a tenant has one cluster on a shard.
//
// What is bought, kept and given back is decided by package demand; how machines are made and ended, and
// how their agents are told, is left to [Machines]; from what they are bought to [Supply].
//
// Locks: that of the mailbox alone, under which no callback runs. Machines are called by the loop and its
// workers, under no lock.
package demandloop
