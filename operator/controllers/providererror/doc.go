// Package providererror passes on to users, and to those who plan, what went wrong in
// the shards.
//
// [Judge] says what an error means: its word for users, and whether it says that there is
// no room. The text of an error is shown and never read. A [Budget] keeps a fault that repeats
// from filling the event log.
//
// The [Reporter] takes errors from the streams of the shards without making them wait,
// publishes each on the most specific object there is, and remembers refusals for lack of
// room. As a controller it writes the last error of an instance into the status of its machine,
// as often as it takes, and takes it out when it is over.
//
// Rights: nstancemachines get list watch, their status patch; nstanceshardgroups and
// nstanceclusters get list watch; events create patch.
package providererror
