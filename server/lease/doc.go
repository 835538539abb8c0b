// Package lease elects one leader among servers that share an object store, and
// lets code prove at any moment that it still leads.
//
// A lock is one object, the [Document]. The leader rewrites it under the
// condition that nobody else did; who sees it unchanged for one lease may take
// it, with the next term. Nothing depends on wall clocks: a standby times how
// long it has seen the same version, the leader how long ago it began its last
// successful renewal, and it stops acting a margin before a standby may start.
//
// An [Elector] campaigns for one lock and hands out a leadership context:
//
//   - It ends when the lease can no longer be proved. Timers fire late after a
//     pause of the process or the box, so code that is about to act calls
//     [Check], which reads the clock at that moment.
//   - [Check] and [Term] work on every context derived from it, whatever its
//     own deadline or cancellation.
//   - [Always] makes a leadership context where there is no election.
//
// The package leaves to its caller what leading means, which terms the other
// documents carry ([Options.MinTerm]), and to write these under conditions: a
// lease bounds who begins to write, a condition decides which write counts.
//
// The function decide says what a standby does about a lock, and why, from what was seen and
// for how long; sight keeps both. The Elector is the loop around it: it reads, asks,
// writes and calls back. Its state is what it shows to others meanwhile.
//
// Lock order: that of the state that an Elector shows, that of a leadership. Nobody is called under either.
package lease

import "errors"

// Errors that a caller acts on.
var (
	// ErrNotLeader says that leadership can't be proved at this moment.
	ErrNotLeader = errors.New("not leader")

	// ErrQuarantined says that a lock document is unreadable or of a newer
	// version. It is neither absent nor stale: nobody takes the lock until
	// someone has repaired or deleted it.
	ErrQuarantined = errors.New("lock document is quarantined")

	// ErrDuplicateID says that another live server uses this server's id. No
	// retry helps: the process must end and be given an id of its own.
	ErrDuplicateID = errors.New("another live server has the same id")
)
