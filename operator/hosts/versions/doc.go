// Package versions decides what becomes of the numbered versions of a MachineConfiguration:
// which number is reserved, created, copied into, locked and pruned next.
//
// [Plan] is pure: it sees a configuration, the versions that are stored and the numbers that
// machines refer to, and returns the writes that come next. Each write is one call to the API
// server, and carries what it was decided from: whoever carries it out must have it refused if
// that has changed, and then read and plan again. A crash after any write leaves a state from
// which the next plan goes on:
//
//   - A number is reserved in the configuration's status before the version of that number is
//     created, so it is never used for anything else, also if the version is deleted.
//   - A version is created only while its number is reserved, and recorded, by its hash in its
//     status, only while it still is; the reservation is cleared only when the version is
//     recorded; a version whose reservation is not cleared is not locked.
//   - The API server cannot tie a creation to a reservation. What a process creates that has
//     stood still until the number was used is therefore never recorded: no machine is built
//     from it, and it is deleted.
//   - A change of the template goes into the one version that is not locked, or makes the
//     next number. The API server refuses the copy if the version was locked meanwhile.
//
// What a version holds is compared by [Hash], which leaves out what says nothing.
//
// It leaves to others how writes are made and which machines refer to what; [References]
// reads that from the machines.
package versions
