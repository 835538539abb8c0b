// Package node connects the machines of the operator with the Nodes that their instances
// become.
//
// Which Node is which instance's is decided in package nodes of the operator; here it is
// written down: in the status of the NstanceMachine, in labels of the Node, and in the
// status of the Machine as Cluster API would write it. A Node without a provider id gets
// its instance's. A Node that was made for one Pod gets what keeps others off.
//
// Two reconcilers share the work. The [Correlator] looks at one machine at a time, and
// [Correlate] decides. The [Deleter] looks at one Node at a time whose instance has ended,
// and deletes it if [nodes.DeletionOf] says that this is up to the operator.
//
// Rights, where the Nodes are: nodes get list watch patch delete; events create patch.
// Where the machines are: nstancemachines get list watch, their status patch; machines and
// clusters get list watch, machines/status patch.
package node
