package node

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi/capacity"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/status"
)

// Observation is a machine and what is known of its Node.
type Observation struct {
	Machine *infrav1.NstanceMachine
	// Owner is the Machine that it belongs to; nil: there is none.
	Owner *clusterv1.Machine
	Found nodes.Located
	// ProviderURI is the provider id that the Node should have.
	ProviderURI string
	// Home is the value of infrav1.AnnotationCluster for Nodes of this cluster.
	Home string
	// SetProviderID: Nodes without a provider id are to get one.
	SetProviderID bool
}

// Decision is what to write. Nil fields: nothing.
type Decision struct {
	// NodeRef, Allocatable and Condition are the machine's.
	NodeRef     *infrav1.NodeReference
	Allocatable infrav1.ResourceList
	Condition   metav1.Condition
	// Node is the Node as it should be.
	Node *corev1.Node
	// Owner is the Machine as its status should be.
	Owner *clusterv1.Machine
	// Mismatch says, for users, that a Node claims to be one that it is not.
	Mismatch string
}

// Correlate decides what follows from what is known of a machine's Node.
func Correlate(o Observation) Decision {
	node := o.Found.Object
	if o.Found.Node == "" || node == nil {
		return lost(o)
	}
	d := Decision{
		NodeRef:     &infrav1.NodeReference{Name: node.Name, UID: node.UID},
		Condition:   status.True(infrav1.ConditionNodeCorrelated, infrav1.ReasonCorrelated, fmt.Sprintf("node %s, by its %s", node.Name, o.Found.How)),
		Allocatable: o.Machine.Status.Allocatable,
	}
	if o.Machine.Spec.Mode == infrav1.MachineManaged && ready(node) {
		d.Allocatable = capacity.Useful(node.Status.Allocatable)
	}
	next := node.DeepCopy()
	label(next, o.Machine, o.Home)
	if o.Found.SetProviderID && o.SetProviderID {
		next.Spec.ProviderID = o.ProviderURI
	}
	dedicate(next, o.Machine)
	if changed(node, next) {
		d.Node = next
	}
	// Cluster API drains the Node that a Machine refers to when its deletion begins. With a
	// reference from later on the Node would count as drained; see drain.ClusterAPIDrains.
	hears := o.Owner != nil && o.Owner.DeletionTimestamp.IsZero() && !o.Owner.Status.NodeRef.IsDefined()
	if hears && next.Spec.ProviderID == o.ProviderURI && o.ProviderURI != "" {
		d.Owner = o.Owner.DeepCopy()
		d.Owner.Status.NodeRef = clusterv1.MachineNodeReference{Name: node.Name}
	}
	return d
}

// lost is for a machine without a Node. One that was known stays as it was as long as
// nothing else is: that is history, and what drains go by.
func lost(o Observation) Decision {
	d := Decision{NodeRef: o.Machine.Status.NodeRef, Allocatable: o.Machine.Status.Allocatable}
	switch {
	case o.Found.Mismatch:
		d.Mismatch = o.Found.Why
		d.Condition = status.False(infrav1.ConditionNodeCorrelated, infrav1.ReasonMismatch, o.Found.Why)
	case o.Found.Why != "":
		d.Condition = status.False(infrav1.ConditionNodeCorrelated, infrav1.ReasonWaitingForNode, o.Found.Why)
	default:
		d.Condition = status.False(infrav1.ConditionNodeCorrelated, infrav1.ReasonWaitingForNode, "no node is known to be this instance's")
	}
	return d
}

// label puts on a Node whose it is, as far as that is not there. What somebody else has put
// there stays.
func label(n *corev1.Node, m *infrav1.NstanceMachine, home string) {
	for key, value := range map[string]string{
		infrav1.LabelInstanceID: m.Spec.InstanceID, infrav1.LabelGroup: m.Spec.GroupRef.Name, infrav1.LabelShard: m.Spec.Shard,
	} {
		if _, there := n.Labels[key]; !there && value != "" {
			metav1.SetMetaDataLabel(&n.ObjectMeta, key, value)
		}
	}
	if n.Annotations[infrav1.AnnotationCluster] == "" {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.AnnotationCluster, home)
	}
}

// dedicate keeps other Pods off a Node that was made for one, and the cluster autoscaler
// from removing it.
func dedicate(n *corev1.Node, m *infrav1.NstanceMachine) {
	claim := m.Labels[infrav1.OnDemandClaim]
	if claim == "" {
		return
	}
	metav1.SetMetaDataLabel(&n.ObjectMeta, infrav1.OnDemandClaim, claim)
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.AnnotationScaleDownDisabled, "true")
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == infrav1.TaintOnDemandClaim })
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: infrav1.TaintOnDemandClaim, Value: claim, Effect: corev1.TaintEffectNoSchedule})
}

// changed reports whether a Node has to be written.
func changed(now, next *corev1.Node) bool {
	same := func(a, b map[string]string, keys ...string) bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return a[key] != b[key] })
	}
	claimed := func(n *corev1.Node) string {
		for _, t := range n.Spec.Taints {
			if t.Key == infrav1.TaintOnDemandClaim {
				return t.Value + string(t.Effect)
			}
		}
		return ""
	}
	return now.Spec.ProviderID != next.Spec.ProviderID || claimed(now) != claimed(next) ||
		!same(now.Labels, next.Labels, infrav1.LabelInstanceID, infrav1.LabelGroup, infrav1.LabelShard, infrav1.OnDemandClaim) ||
		!same(now.Annotations, next.Annotations, infrav1.AnnotationScaleDownDisabled, infrav1.AnnotationCluster)
}
