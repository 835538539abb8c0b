// Package readback decides what Kubernetes shows of what the shards say: the UpcomingNode of
// each machine, and the AvailableCapacity of each profile that is asked for.
//
// Both kinds are written for people and tools, and nothing is decided by them elsewhere. So
// what is equal is not written again: there may be thousands of machines, and their states
// change in bursts.
//
// The package is pure: objects are observed and returned, time is an argument, and nothing that
// is handed in is changed. Who reads and writes is up to the caller.
package readback
