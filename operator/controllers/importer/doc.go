// Package importer makes pools of the groups that the servers have and that no pool names.
//
// A group that an administrator made on the servers becomes a pool once, with the sizes
// that it has. From then on Kubernetes owns its size; nothing flows back. So the one
// moment counts, and nothing is made before every configured shard has said what it has
// ([OpenGate]): a pool that is made of half of the shards would have half of the size.
//
// [Plan] returns steps in the order in which they are to be carried out: the pool, the
// groups of its shards with exactly the sizes that the servers have, and last the
// MachinePool with their sum. No server learns anything new by that, and no instance
// moves. Each step can be repeated, and a crash between two of them leaves something that
// the next plan completes, from the sizes written on the pool itself. A group that was
// orphaned when its pool was deleted is not imported again: see Orphaned of
// [Input]. Plan and what it is made of (plan.go, gate.go, orphaned.go, sizes.go, staticsize.go)
// are functions of their arguments.
//
// The [Reconciler] reads the input and carries the steps out. Before anything is made
// everything is read once more from the API server itself.
//
// Whether all groups have their pools stands in condition ImportComplete of the
// NstanceCluster.
//
// Rights: nstancemachinepools and nstanceshardgroups get list watch create, machinepools
// get list watch create, nstanceclusters get list watch patch and their status patch; events
// create patch.
package importer
