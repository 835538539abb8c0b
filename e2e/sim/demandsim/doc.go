// Package demandsim runs demand mode as a closed loop, in one goroutine and on a virtual clock, breaks
// it in the ways that it knows, and checks after each cycle of the engine that the promises E1 to E13
// of docs/invariants.md hold.
//
// The engine, the translation of Pods and their aggregation are the product's own. Around them are
// models: clusters whose controllers and schedulers answer to what is decided (package cluster), a
// provider whose machines take their time (package cloud), operators that drain, refuse and are away
// (package tenant), and leaders that end in front of any effect (package leader). A tick applies the
// events of the plan, carries roll-ups to the leader, lets it decide and act, and then lets provider
// and clusters go on.
//
// What happens is a [sim.Plan], whose events are the verbs of verbs.go. [Generate] makes one from a
// seed; stories are plans that a person wrote. A run has no luck of its own: equal plans give traces
// that are equal byte by byte. At the end all faults end, and every Pod that can run has to, with no
// more machines than it takes.
package demandsim
