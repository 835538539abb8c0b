// Package machinetemplate says on each NstanceMachineTemplate what the Nodes of its machines will
// have, so that an autoscaler can decide about a MachineDeployment that has none yet.
//
// [Status] decides; it is pure. What one machine of the group has, its shards say; a template
// that asks for another machine type than its group's promises nothing, for nobody has
// said what that one has. The [Reconciler] looks and writes when a template, a group or a
// shard changes.
//
// Rights: nstancemachinetemplates list watch, their status patch; clusters get list watch.
package machinetemplate
