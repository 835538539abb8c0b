package nodes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/collect"
	"nstance.dev/operator/inventory"
	machines "nstance.dev/operator/nodes"
	"nstance.dev/operator/status"
)

// SetupWithManager makes a manager run the reconciler. The Nodes are those of workload, which may be
// another cluster than the manager's own. [Reports] is run by somebody else.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workload cluster.Cluster, news *inventory.Hub, o controller.Options) error {
	err := builder.ControllerManagedBy(mgr).
		Named("demand-nodes").
		WatchesRawSource(source.Kind(workload.GetCache(), &corev1.Node{}, handler.TypedEnqueueRequestsFromMapFunc(r.ofNode), inventory.NoHeartbeats())).
		WatchesRawSource(source.Kind(workload.GetCache(), &demandv1.UpcomingNode{}, handler.TypedEnqueueRequestsFromMapFunc(ofUpcoming))).
		WatchesRawSource(source.Kind(workload.GetCache(), &corev1.Pod{},
			collect.Events(collect.Soon, handler.TypedEnqueueRequestsFromMapFunc(r.ofPod)), comesOrGoes())).
		WatchesRawSource(news.Source(collect.Soon, changed)).
		WatchesRawSource(r.wake.Source()).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
	if err != nil {
		return fmt.Errorf("controller demand-nodes: %w", err)
	}
	return nil
}

// ofNode returns the machines that a Node may be of.
func (r *Reconciler) ofNode(ctx context.Context, n *corev1.Node) (all []reconcile.Request) {
	ids, err := machines.UpcomingOfNode(ctx, r.opts.Workload, n)
	if err != nil {
		return nil // the cache ends with the process
	}
	for _, id := range ids {
		all = append(all, inventory.Request(id)...)
	}
	return all
}

// ofUpcoming returns its machine.
func ofUpcoming(_ context.Context, u *demandv1.UpcomingNode) []reconcile.Request {
	return inventory.Request(u.Spec.MachineID)
}

// ofPod returns the machine of the Node that a Pod runs on, as far as it was matched.
func (r *Reconciler) ofPod(ctx context.Context, p *corev1.Pod) []reconcile.Request {
	node := &corev1.Node{}
	if err := r.opts.Workload.Get(ctx, client.ObjectKey{Name: p.Spec.NodeName}, node, client.UnsafeDisableDeepCopy); err != nil {
		return nil // it has no Node, or its Node is gone
	}
	return inventory.Request(node.Annotations[infrav1.AnnotationDemandMachine])
}

// comesOrGoes are the events by which the number of Pods of a Node changes.
func comesOrGoes() predicate.TypedPredicate[*corev1.Pod] {
	bound := func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }
	return predicate.TypedFuncs[*corev1.Pod]{
		CreateFunc: func(e event.TypedCreateEvent[*corev1.Pod]) bool { return bound(e.Object) && !e.IsInInitialList },
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Pod]) bool {
			return bound(e.ObjectOld) != bound(e.ObjectNew) || e.ObjectOld.Status.Phase != e.ObjectNew.Status.Phase
		},
		DeleteFunc:  func(e event.TypedDeleteEvent[*corev1.Pod]) bool { return bound(e.Object) },
		GenericFunc: func(event.TypedGenericEvent[*corev1.Pod]) bool { return false },
	}
}

// changed returns the machines of which a shard says something new, or that are gone.
func changed(_ context.Context, changes []inventory.ShardChange) (all []reconcile.Request) {
	for _, c := range changes {
		if c.Kind == inventory.InstanceChanged || c.Kind == inventory.InstanceGone {
			all = append(all, inventory.Request(c.Instance)...)
		}
	}
	return all
}
