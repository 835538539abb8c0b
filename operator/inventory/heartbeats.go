package inventory

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// NoHeartbeats lets no update of a Node pass that says nothing but that its kubelet lives:
// every five minutes one says again, with another time, what was true before
// (nodeStatusReportFrequency). A Node that a cache shows again as it was passes, for that
// is a look at everything.
func NoHeartbeats() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
			again := e.ObjectOld.ResourceVersion == e.ObjectNew.ResourceVersion
			return again || !equality.Semantic.DeepEqual(timeless(e.ObjectOld), timeless(e.ObjectNew))
		},
	}
}

// timeless is a Node without what changes with each heartbeat.
func timeless(n *corev1.Node) *corev1.Node {
	out := *n
	out.ResourceVersion, out.ManagedFields = "", nil
	out.Status.Conditions = make([]corev1.NodeCondition, len(n.Status.Conditions))
	for i, c := range n.Status.Conditions {
		c.LastHeartbeatTime.Reset()
		out.Status.Conditions[i] = c
	}
	return &out
}
