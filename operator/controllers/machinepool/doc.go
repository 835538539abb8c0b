// Package machinepool makes the size of a MachinePool that of its group on the shards.
//
// A pass over one NstanceMachinePool observes (observe.go), decides and carries out. The
// decisions are pure: which size each shard gets and which instance goes is package
// planner's; plan.go puts both together into writes of NstanceShardGroups,
// inframachine.go decides which NstanceMachines are to be made, status.go what there is to say.
//
// Before anything gets smaller or is deleted everything is read once more from the API
// server itself, past the caches, and decided again: whoever names a machine that is to go
// does so just before the size changes, and a cache may not have heard of it.
//
// What a pass does not finish the next one does. Sizes and retiring instances are written
// in one patch per shard, against the version that was read; Machines of retiring
// instances are deleted afterwards, as long as there are any. So a crash between two
// writes costs time and nothing else.
//
// What the pool has to remember is in its annotations: for which shards it was balanced and when
// the next instance may move, and which shards a user took out by deleting their shard group.
// Orphaned groups are recorded on the NstanceCluster.
//
// Rights: nstancemachinepools get list watch patch update, their status patch;
// nstanceshardgroups and nstancemachines get list watch create patch delete; machinepools
// get list watch create patch delete; machines get list watch patch delete; clusters get list watch;
// nstanceclusters get list watch patch; events create patch.
package machinepool
