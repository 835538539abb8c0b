// Package garbage compares the machines that the provider lists with the instances that are
// known, for one leader's term: what is listed is told to package liveness, what was left over
// by an instance that has ended is deleted, and what no readable record stands for is
// unmanaged: it is reported and never deleted (S8, F10).
//
// What a listing means is decided by package fleet, fleet.Collect. While a listing lacks so many
// machines at once that it cannot be believed, [Collector.Alarm] says so, and no delete is sent by
// anybody who asks [Collector.DeletesBlocked].
//
// Its one lock is held for looks into the collector's own fields; nobody is called under it.
package garbage
