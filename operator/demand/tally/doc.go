// Package tally keeps what the Pods and CapacityRequests of a cluster ask for, and divides it
// over the shards.
//
// A [Tally] follows Pods, requests and Nodes as they come, change and go, and returns at any
// time what each shard is to be asked for. A Pod counts by its request or by itself, as
// [Options.Source] says; what a Pod on a Node of nobody's asks for is left out, since that Node
// serves it; Pods that stay unschedulable get rows of their own (package stuck); members of a
// group are kept in the zone in which the group runs already. The order in which things are
// heard of does not matter: what is the case decides.
//
// The package is pure: time is an argument, nothing is waited for, and what is handed in is only
// read. It is not safe for concurrent use. Where things come from and how often a roll-up is
// sent is left to others, as is the translation of Pods (package translate).
package tally
