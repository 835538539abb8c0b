// Package objects says how caches keep what demand mode reads: the kinds of group
// demand.nstance.dev in all namespaces, and volumes, their claims and classes, each as far as
// it is read. There may be a hundred thousand of some.
//
// A cache is made before an installation may have brought its kinds; [Mapper] knows their
// scope without asking. Nothing cached may be written back as a whole: patches alone know
// what was left out.
//
// What is kept of a Pod is up to those who read Pods, as the cache of Pods is shared.
package objects
