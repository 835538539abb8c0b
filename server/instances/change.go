package instances

import "nstance.dev/server/cache"

// Change is what became of an instance.
type Change struct {
	Event  Event
	Before cache.Instance // the zero Instance where it was not known before
	After  cache.Instance // as it was last known where it is lost
}

// Event is the kind of a [Change].
type Event uint8

// The events.
const (
	Created          Event = iota + 1 // it has a record, and its machine can be asked for
	Found                             // its record stood in storage, and this leader did not know it
	Registered                        // its agent registered
	Condemned                         // it is to go, or sooner than it was before
	RemovalCancelled                  // it is not to go any more
	Updated                           // something else in its record changed
	Ended                             // its machine is gone, or never was
	Lost                              // somebody deleted its record
	Tombstone                         // its machine was gone under a former leader, and its record is still there
)
