// Package needs says what a cluster can ask for, in one canonical form that operator and
// shard compute alike.
//
// A [Profile] is what machines must satisfy and what it costs to disturb what runs on them:
// requirements, spread, tolerations, priority and two penalty buckets. Its fingerprint is a
// hash of its canonical bytes: two profiles that are equal as sets have the same, two that
// differ have different ones. The size of what is asked for is no part of it. A [CoLocation]
// names what has to be in one topology domain, in the same way. [Key] names one row of one
// cluster.
//
// The package is pure: nothing here reads a clock or the network, waits, or changes its
// arguments. It leaves to others how needs come about (package aggregate of the operator),
// how they travel (package rollup), and which machine matches them (the shard). Quantities
// of Kubernetes are compared by the operator; here stand the bounds of the buckets.
//
// The canonical forms are part of the contract between processes of different versions:
// what they say about a given value never changes.
package needs
