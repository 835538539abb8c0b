// Package shardgroup carries the spec of each NstanceShardGroup to its shard, and what the
// shard says back into the status.
//
// One object is looked at whole (observe.go), a pure function decides what is to be done
// about it (decide.go), and what was done shows in the status (status.go). A group is
// sent when its spec has changed, or when somebody else has changed it on the server; not
// more often. Somebody else who keeps changing it is given way to after three repairs.
//
// Before a shard is told that something ends, everything is read once more from the API
// server itself, past the caches. Before it is told a greater size than it has, what the
// MachinePool of the group wants is read there too (wanted.go): the spec may have a size that was
// taken back while the shard was out of sight.
//
// What the server is told is never less than what is there on purpose: instances that are
// retiring count until they are gone. What a server does not answer for stays as it was
// known last.
//
// The pool's controller makes and deletes the objects and writes their specs. Nothing of
// the Kubernetes API but these objects is changed here, and the finalizer is taken off
// once the shard has no such group any more, or is not to be asked.
//
// Rights: nstanceshardgroups get list watch patch update, nstanceshardgroups/status patch,
// nstancemachinepools, machinepools, nstancemachines and clusters get list watch; events create
// patch.
package shardgroup
