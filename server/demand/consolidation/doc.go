// Package consolidation says how machines are replaced by cheaper ones that do the same: what a machine
// cost in the last hour, whether a replacement saves enough, and what comes next in an [Attempt].
//
// An attempt buys first and gives back later. It ends at the first thing that goes wrong, and then
// what was bought is what is not needed. Which machines are looked at, and what they would be replaced
// by, is decided by the engine that calls this package.
//
// Everything is a function of its arguments. Times are milliseconds of one clock that the caller
// reads. Nothing here is safe for concurrent use.
package consolidation
