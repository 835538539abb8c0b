// Package versions keeps the numbered versions of MachineConfigurations: it alone makes,
// changes, locks and prunes them.
//
// What comes next is decided in hosts/versions; this package reads, carries out one write at a
// time, and reads again. All work on one configuration is serial, [Reconciler.Lock] included,
// which the controller that assigns versions to machines calls. Writes carry what was read, so
// one that comes too late is refused: by a conflict, or, where the version was locked
// meanwhile, as invalid. Both lead to another look and not to an error.
//
// A plan is made from the cache first, where that it is empty costs nothing; what it asks for
// is planned again from the API server itself before anything is written.
//
// The counters in statuses are computed from HostMachines, never incremented, and written at
// most once in [countEvery] for a configuration, because a fleet changes machine by machine.
//
// Rights: machineconfigurations get list watch, their status patch, their finalizers update;
// machineconfigurationversions get list watch create update delete, their status patch; hostmachines list
// watch; events create patch.
package versions
