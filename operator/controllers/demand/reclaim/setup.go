package reclaim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
)

// SetupWithManager makes a manager run the reconciler. The Nodes are those of workload, which may be
// another cluster than the manager's own.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workload cluster.Cluster, o controller.Options) error {
	err := builder.ControllerManagedBy(mgr).
		Named("demand-reclaim").
		WatchesRawSource(source.Kind(workload.GetCache(), &corev1.Node{}, handler.TypedEnqueueRequestsFromMapFunc(ofNode), reclaimed())).
		WatchesRawSource(source.Kind(workload.GetCache(), &demandv1.UpcomingNode{}, handler.TypedEnqueueRequestsFromMapFunc(ofUpcoming))).
		WatchesRawSource(r.wake.Source()).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
	if err != nil {
		return fmt.Errorf("controller demand-reclaim: %w", err)
	}
	return nil
}

// reclaimed are the events of Nodes that are drained for an instruction, or were.
func reclaimed() predicate.TypedPredicate[*corev1.Node] {
	is := func(n *corev1.Node) bool { return n.Annotations[infrav1.AnnotationDrainRequest] != "" }
	return predicate.TypedFuncs[*corev1.Node]{
		CreateFunc:  func(e event.TypedCreateEvent[*corev1.Node]) bool { return is(e.Object) },
		UpdateFunc:  func(e event.TypedUpdateEvent[*corev1.Node]) bool { return is(e.ObjectOld) || is(e.ObjectNew) },
		DeleteFunc:  func(e event.TypedDeleteEvent[*corev1.Node]) bool { return is(e.Object) },
		GenericFunc: func(event.TypedGenericEvent[*corev1.Node]) bool { return false },
	}
}

// ofNode returns the machine that a Node is drained for.
func ofNode(_ context.Context, n *corev1.Node) []reconcile.Request {
	return inventory.Request(n.Annotations[infrav1.AnnotationDrainInstance])
}

// ofUpcoming returns its machine.
func ofUpcoming(_ context.Context, u *demandv1.UpcomingNode) []reconcile.Request {
	return inventory.Request(u.Spec.MachineID)
}
