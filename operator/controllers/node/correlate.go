package node

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	api "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi/capacity"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/status"
)

// Observation is a machine and what is known of its Node.
type Observation struct {
	Machine *api.NstanceMachine
	// Owner is the Machine that it belongs to; nil: there is none.
	Owner *clusterv1.Machine
	Found nodes.Located
	// ProviderURI is the provider id that the Node should have.
	ProviderURI string
	// Home is the value of api.AnnotationCluster for Nodes of this cluster.
	Home string
	// SetProviderID: Nodes without a provider id are to get one.
	SetProviderID bool
}

// Decision is what to write. Nil fields: nothing.
type Decision struct {
	// NodeRef, Allocatable and Condition are the machine's.
	NodeRef     *api.NodeReference
	Allocatable api.ResourceList
	Condition   metav1.Condition
	// Node is the Node as it should be.
	Node *corev1.Node
	// Owner is the Machine as its status should be.
	Owner *clusterv1.Machine
	// Mismatch says, for people, that a Node claims to be one that it is not.
	Mismatch string
}

// Correlate decides what follows from what is known of a machine's Node.
func Correlate(o Observation) Decision {
	node := o.Found.Object
	if o.Found.Node == "" || node == nil {
		return lost(o)
	}
	d := Decision{
		NodeRef:     &api.NodeReference{Name: node.Name, UID: node.UID},
		Condition:   status.True(api.ConditionNodeCorrelated, api.ReasonCorrelated, fmt.Sprintf("node %s, by its %s", node.Name, o.Found.How)),
		Allocatable: o.Machine.Status.Allocatable,
	}
	if o.Machine.Spec.Mode == api.MachineManaged && ready(node) {
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
	if o.Owner != nil && !o.Owner.Status.NodeRef.IsDefined() && next.Spec.ProviderID == o.ProviderURI && o.ProviderURI != "" {
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
		d.Condition = status.False(api.ConditionNodeCorrelated, api.ReasonMismatch, o.Found.Why)
	case o.Found.Why != "":
		d.Condition = status.False(api.ConditionNodeCorrelated, api.ReasonWaitingForNode, o.Found.Why)
	default:
		d.Condition = status.False(api.ConditionNodeCorrelated, api.ReasonWaitingForNode, "no node is known to be this instance's")
	}
	return d
}

// label puts on a Node whose it is, as far as that is not there. What somebody else has put
// there stays.
func label(n *corev1.Node, m *api.NstanceMachine, home string) {
	for key, value := range map[string]string{
		api.LabelInstanceID: m.Spec.InstanceID, api.LabelGroup: m.Spec.GroupRef.Name, api.LabelShard: m.Spec.Shard,
	} {
		if _, there := n.Labels[key]; !there && value != "" {
			set(&n.Labels, key, value)
		}
	}
	if n.Annotations[api.AnnotationCluster] == "" {
		set(&n.Annotations, api.AnnotationCluster, home)
	}
}

// dedicate keeps other Pods off a Node that was made for one, and the cluster autoscaler
// from removing it.
func dedicate(n *corev1.Node, m *api.NstanceMachine) {
	claim := m.Labels[api.OnDemandClaim]
	if claim == "" {
		return
	}
	set(&n.Labels, api.OnDemandClaim, claim)
	set(&n.Annotations, api.AnnotationScaleDownDisabled, "true")
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == api.TaintOnDemandClaim })
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: api.TaintOnDemandClaim, Value: claim, Effect: corev1.TaintEffectNoSchedule})
}

// changed reports whether a Node has to be written.
func changed(now, next *corev1.Node) bool {
	same := func(a, b map[string]string, keys ...string) bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return a[key] != b[key] })
	}
	claimed := func(n *corev1.Node) string {
		for _, t := range n.Spec.Taints {
			if t.Key == api.TaintOnDemandClaim {
				return t.Value + string(t.Effect)
			}
		}
		return ""
	}
	return now.Spec.ProviderID != next.Spec.ProviderID || claimed(now) != claimed(next) ||
		!same(now.Labels, next.Labels, api.LabelInstanceID, api.LabelGroup, api.LabelShard, api.OnDemandClaim) ||
		!same(now.Annotations, next.Annotations, api.AnnotationScaleDownDisabled, api.AnnotationCluster)
}

func set(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}
