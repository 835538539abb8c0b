package nodes

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Owner is who deletes a Node.
type Owner string

// The owners.
const (
	// OwnerNone: nobody deletes the Node, because nothing shows that its instance has ended.
	OwnerNone Owner = "none"
	// OwnerClusterAPI: Cluster API deletes the Node together with its Machine.
	OwnerClusterAPI Owner = "Cluster API"
	// OwnerDemand: demand mode deletes the Node, because its machine was bound to the cluster by
	// it and has left.
	OwnerDemand Owner = "demand mode"
	// OwnerHost: the controller of host machines deletes the Node, because the node machine that
	// it runs in is stopped for good, or its HostMachine is being deleted.
	OwnerHost Owner = "host machine"
	// OwnerOperator: the operator deletes the Node, because nobody else does.
	OwnerOperator Owner = "operator"
)

// ReadyNodeGrace is how long the operator leaves a ready Node after its instance was deleted:
// its kubelet may still be ending Pods.
const ReadyNodeGrace = 60 * time.Second

// Instanceless is what is known of a Node whose instance may have ended.
type Instanceless struct {
	// NodeProviderID is the provider ID of the Node; empty: it has none.
	NodeProviderID string
	// Ready: the kubelet of the Node reports.
	Ready bool

	// Correlated: the Node was correlated with an instance of this cluster, and the shard of
	// that instance reports it as gone. Deleted: a shard reported the deletion of the instance
	// with the provider ID of the Node.
	Correlated, Deleted bool
	// Exists: a shard has an instance with the provider ID of the Node, or with the instance
	// ID of its label.
	Exists bool
	// EndedAt is when the end of the instance was first observed. It counts only if Ended.
	EndedAt time.Time

	// InstanceProviderID is the provider ID of the instance.
	InstanceProviderID string
	// MachineHasNode: the Machine of the instance refers to a Node. HasControlPlane: its
	// Cluster has a control plane that Cluster API knows. With both, Cluster API deletes the
	// Node when it deletes the Machine.
	MachineHasNode, HasControlPlane bool

	// Demand: the Node was matched to a machine of demand mode, which is on. MachineLeft: that
	// machine has left the cluster, because it was deleted, or emptied by an instruction of its
	// shard that holds nothing of it for this cluster any more. A machine that has left may exist,
	// and joins again as another Node.
	Demand, MachineLeft bool

	// HostMachine: the Node runs, or ran, in the node machine of a HostMachine. HostStopped: that
	// node machine is stopped, and another one is being built. HostReleased: the HostMachine is
	// being deleted, and its host was reset or is away.
	HostMachine, HostStopped, HostReleased bool
}

// Ended reports whether the instance of the Node has ended. The label of a Node is written by
// its kubelet, so it proves nothing while an instance with the provider ID of the Node exists.
func (n Instanceless) Ended() bool {
	return n.NodeProviderID != "" && (n.Correlated || n.Deleted) && !n.Exists
}

// OfHostMachine reports whether a Node runs in the node machine of a HostMachine, as the operator has
// written on it.
func OfHostMachine(n *corev1.Node) bool { return n.Annotations["hosts.nstance.dev/machine-uid"] != "" }

// Deletion is the answer to the question who deletes a Node.
type Deletion struct {
	Owner Owner
	// Reason says why it is this owner, for logs.
	Reason string
	// After is how long an operator that is the owner waits; zero: it deletes the Node now.
	After time.Duration
}

// DeletionOf decides who deletes a Node. It is the only place that does: whoever else comes to
// delete or keep Nodes gets an Owner and a case here, so that two owners never race.
func DeletionOf(n Instanceless, now time.Time) Deletion {
	node, parsed := ParseProviderID(n.NodeProviderID)
	instance, known := ParseProviderID(n.InstanceProviderID)
	left := n.EndedAt.Add(ReadyNodeGrace).Sub(now)
	switch {
	case n.HostMachine && !n.Ended() && (n.HostStopped || n.HostReleased):
		return Deletion{Owner: OwnerHost, Reason: "the node machine that it runs in is gone"}
	case n.HostMachine && !n.Ended() && n.Demand && n.MachineLeft:
		return Deletion{Owner: OwnerHost, Reason: "its HostMachine is deleted with the binding, and deletes it"}
	case n.Demand && !n.MachineLeft:
		return Deletion{Owner: OwnerNone, Reason: "its machine has not left the cluster"}
	case !n.Demand && !n.Ended():
		return Deletion{Owner: OwnerNone, Reason: "its instance has not ended"}
	case n.MachineHasNode && n.HasControlPlane:
		return Deletion{Owner: OwnerClusterAPI, Reason: "Cluster API deletes it with its Machine"}
	case !parsed, !known, !Same(node, instance):
		return Deletion{Owner: OwnerNone, Reason: "its provider ID is not that of the ended instance"}
	case n.Demand:
		return Deletion{Owner: OwnerDemand, Reason: "its machine has left the cluster"}
	case n.Ready && left > 0:
		return Deletion{Owner: OwnerOperator, Reason: "its instance has ended, and it is still ready", After: left}
	default:
		return Deletion{Owner: OwnerOperator, Reason: "its instance has ended"}
	}
}
