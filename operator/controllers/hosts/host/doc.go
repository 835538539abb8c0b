// Package host carries the life of node machines out: it tells hosts what to build, marks the Nodes that
// have joined, and notices the Nodes that are gone.
//
// What comes next is decided in hosts/lifecycle. [Reconciler] gathers what that takes, writes what the
// decision says of a machine, and carries the one action out. One worker works on a machine at a time;
// everything may be repeated.
//
//   - That a Node is gone is asked of the API server itself, never of a cache, and twice.
//   - A status is written only if the machine is still the one that was read: a decision that was made from
//     an old copy, of which the Node or the epoch may be another by now, is made again.
//   - A version is locked before its content goes anywhere ([Options].Lock returns it).
//   - The credential is in the memory of this process and on its way to the shard. Its ID is in the
//     status before it is published: what is to be approved for it is known by then.
//
// It owns, of HostMachines of instances: the finalizer; status.phase, nodeRef, host, slots, repave
// without certificates, executors and drift; of configuration assigned, applied and previous; and the
// conditions AgentConnected, PreflightPassed, Paved, NodeJoined, Ready, RepaveFailed and
// ConfigurationDrifted. Of Nodes it owns the annotations that say what they were built from, and the
// label with the machine's name. Of Machines of Cluster API it sets, while the host is repaved, the
// annotation that keeps them from being remediated.
//
// Rights, where HostMachines are: hostmachines list watch patch, their status patch; machineconfigurations
// list watch patch; machineconfigurationversions list watch; machines list watch patch; secrets get of the
// operator's namespace. Where Nodes are: nodes get list watch patch delete; pods list; secrets create delete
// and serviceaccounts/token create in the operator's namespace; events create patch.
package host
