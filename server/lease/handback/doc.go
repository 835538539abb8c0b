// Package handback gives back the leases of a server process that has ended without
// doing so itself: killed, crashed, or out of memory. A standby then leads at once and
// not a lease later.
//
// While it leads, a process notes in its cache folder which versions of a lock it is about
// to store ([Notes]). Once it has ended, [Release] marks as released the lock that is still
// one of these versions, under the condition that nobody writes it meanwhile. A lock in any
// other version belongs to somebody else, or to the process in a way that nobody knows of:
// it is left alone, and the lease runs out.
//
// The caller holds the file lock of the cache folder, which proves that the process has
// ended. What it had sent before may still be on its way: [Unsent] says whether the kernel
// holds data of connections that no process has any more, and nothing is given back as long
// as it does. What has left the machine by then may have its effect after the next
// leader's start, as after every lost answer: conditions, terms and idempotency tokens make
// it harmless (S1, S3, S5).
//
// The function decide says what is done about a lock, and why; Release is the one place
// that writes.
package handback
