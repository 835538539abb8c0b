package drain

import (
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// DefaultTimeout is how long the work of a machine that was deleted gets to leave, where its
// Machine does not say.
const DefaultTimeout = 10 * time.Minute

// KeepsWork reports whether a Machine says that nobody is to move its work away.
func KeepsWork(owner *clusterv1.Machine) bool {
	if owner == nil {
		return false
	}
	_, keeps := owner.Annotations[clusterv1.ExcludeNodeDrainingAnnotation]
	return keeps
}

// Unnoticed is how long a Node may be there before Cluster API knows it, which reads Nodes
// from a cache. The clocks of two API servers may differ by as much.
const Unnoticed = 10 * time.Second

// ClusterAPIDrains reports whether Cluster API empties the Node of a Machine that is being deleted:
// it deletes the NstanceMachine only afterwards, if it knows the Node and has a control plane.
// A Node that joined later was not emptied, although the Machine refers to it by now. joined
// is when the Node was made; zero: there is none. m may be nil if owner is.
func ClusterAPIDrains(m *infrav1.NstanceMachine, owner *clusterv1.Machine, hasControlPlane bool, joined time.Time) bool {
	if owner == nil || !hasControlPlane || owner.DeletionTimestamp.IsZero() || !owner.Status.NodeRef.IsDefined() {
		return false
	}
	return m.DeletionTimestamp.IsZero() || joined.Before(m.DeletionTimestamp.Add(-Unnoticed))
}

// Deadline returns until when the work of a machine that is being deleted may leave:
// the time that its Machine gives, DefaultTimeout by default. Zero: as long as it takes.
func Deadline(m *infrav1.NstanceMachine, owner *clusterv1.Machine) time.Time {
	timeout := DefaultTimeout
	if owner != nil && owner.Spec.Deletion.NodeDrainTimeoutSeconds != nil {
		timeout = time.Duration(*owner.Spec.Deletion.NodeDrainTimeoutSeconds) * time.Second
	}
	if timeout == 0 {
		return time.Time{}
	}
	return m.DeletionTimestamp.Add(timeout)
}
