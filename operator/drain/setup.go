package drain

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/collect"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
)

// SetupWithManager makes a manager run the reconciler. The Nodes are those of workload;
// where they are the manager's own, that is the manager itself.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workload cluster.Cluster, news *inventory.Hub, o controller.Options) error {
	drained := predicate.NewTypedPredicateFuncs(func(n *corev1.Node) bool { return n.Annotations[infrav1.AnnotationDrainInstance] != "" })
	err := builder.ControllerManagedBy(mgr).
		Named("drains").
		Watches(&infrav1.NstanceMachine{}, handler.EnqueueRequestsFromMapFunc(ofMachine)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.ofOwner)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster), builder.WithPredicates(capi.ClusterChanged())).
		WatchesRawSource(source.Kind(workload.GetCache(), &corev1.Node{}, handler.TypedEnqueueRequestsFromMapFunc(ofNode), drained)).
		WatchesRawSource(news.Source(collect.Soon, r.changed)).
		WatchesRawSource(r.queue.source()).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
	if err != nil {
		return fmt.Errorf("controller drains: %w", err)
	}
	return nil
}

// ofMachine returns the instance of a machine that is being deleted.
func ofMachine(_ context.Context, o client.Object) []reconcile.Request {
	m, ok := o.(*infrav1.NstanceMachine)
	if !ok || m.DeletionTimestamp.IsZero() {
		return nil
	}
	return inventory.Request(m.Spec.InstanceID)
}

// ofOwner returns the instance of a Machine that is being deleted.
func (r *Reconciler) ofOwner(ctx context.Context, o client.Object) []reconcile.Request {
	owner, ok := o.(*clusterv1.Machine)
	if !ok || owner.DeletionTimestamp.IsZero() || owner.Spec.InfrastructureRef.Kind != infrav1.KindMachine {
		return nil
	}
	m := &infrav1.NstanceMachine{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Spec.InfrastructureRef.Name}, m); err != nil {
		return nil // gone, and its drain with it
	}
	return inventory.Request(m.Spec.InstanceID)
}

// ofCluster returns all instances that are being drained: a Cluster that is paused asks for
// nothing, and its control plane decides who drains.
func (r *Reconciler) ofCluster(context.Context, client.Object) (all []reconcile.Request) {
	_, known := r.memory.queueEntries()
	for instance := range known {
		all = append(all, inventory.Request(instance)...)
	}
	return all
}

// ofNode returns the instance that a Node is being drained for: after a restart these are
// the drains that go on.
func ofNode(_ context.Context, n *corev1.Node) []reconcile.Request {
	return inventory.Request(n.Annotations[infrav1.AnnotationDrainInstance])
}

// changed returns the instances whose end is decided, or is no longer, and those that
// are being drained in a shard that has come or gone.
func (r *Reconciler) changed(_ context.Context, changes []inventory.ShardChange) []reconcile.Request {
	var all []reconcile.Request
	for _, c := range changes {
		switch c.Kind {
		case inventory.InstanceGone:
			all = append(all, inventory.Request(c.Instance)...)
		case inventory.InstanceChanged:
			_, draining := r.memory.get(c.Instance)
			condemned := false
			r.Inventory.Read(c.Shard, func(s *inventory.Shard) { condemned = s.Instance(c.Instance).GetCondemned() != nil })
			if draining || condemned {
				all = append(all, inventory.Request(c.Instance)...)
			}
		case inventory.ShardChanged:
			_, known := r.memory.queueEntries()
			for instance := range known {
				all = append(all, inventory.Request(instance)...)
			}
		}
	}
	r.requestsChanged()
	return all
}
