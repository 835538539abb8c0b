package importer

import (
	"context"
	"reflect"
	"slices"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/collect"
	"nstance.dev/operator/indexes"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
)

// SetupWithManager makes a manager run the controller for what changes in the cluster and
// in the shards.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, news *inventory.Hub) error {
	one := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: r.Namespace, Name: r.Cluster}}
	first := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(one)
		return nil
	})
	groups := func(_ context.Context, changes []inventory.ShardChange) []reconcile.Request {
		for _, c := range changes {
			switch c.Kind {
			case inventory.ShardChanged, inventory.GroupChanged, inventory.GroupGone:
				return []reconcile.Request{one}
			}
		}
		return nil
	}
	unknown := func(ctx context.Context, changes []inventory.ShardChange) []reconcile.Request {
		return groups(ctx, r.unknown(ctx, changes))
	}
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{one}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("imports").
		Watches(&infrav1.NstanceMachinePool{}, all, builder.WithPredicates(knownChanged())).
		Watches(&infrav1.NstanceCluster{}, all, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(first).
		WatchesRawSource(news.Source(collect.Later, unknown)).
		WatchesRawSource(news.Source(collect.Last, groups)).
		Complete(status.RequeueConflicts(r))
}

// unknown leaves out the changes of groups that have a pool: such a group changes with each of its instances.
func (r *Reconciler) unknown(ctx context.Context, changes []inventory.ShardChange) []inventory.ShardChange {
	return slices.DeleteFunc(slices.Clone(changes), func(c inventory.ShardChange) bool {
		if c.Kind != inventory.GroupChanged {
			return false
		}
		var pools infrav1.NstanceMachinePoolList
		err := r.Client.List(ctx, &pools, client.InNamespace(r.Namespace), indexes.OfGroup(c.Group), client.UnsafeDisableDeepCopy)
		return err == nil && slices.ContainsFunc(pools.Items, func(p infrav1.NstanceMachinePool) bool { return p.Spec.Group == c.Group })
	})
}

// knownChanged lets no update of a pool pass that is nothing to an import: most say what
// instances do.
func knownChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, was := e.ObjectOld.(*infrav1.NstanceMachinePool)
		now, is := e.ObjectNew.(*infrav1.NstanceMachinePool)
		return !was || !is || !reflect.DeepEqual(known(before), known(now))
	}}
}
