// Package imports makes pools of the groups that the servers have and that no pool names.
//
// What is to be made, and that nothing is made before every configured shard has said what
// it has, package importing decides. Here its input is read and its steps are carried out:
// the pool, its parts with exactly the sizes that the servers have, then the MachinePool.
// Before anything is made everything is read once more from the API server itself.
//
// Whether all groups have their pools stands in condition ImportComplete of the
// NstanceCluster.
//
// Rights: nstancemachinepools and nstanceshardgroups get list watch create, machinepools
// get list watch create, nstanceclusters get list watch patch and their status patch; events
// create patch.
package imports
