package shardgroup

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/collect"
	"nstance.dev/operator/indexes"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
)

// SetupWithManager makes a manager run the controller for what changes in the cluster and
// in the shards.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, news *inventory.Hub, options controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("shardgroup").
		For(&infrav1.NstanceShardGroup{}, builder.WithPredicates(capi.ChangedIn(facts))).
		Watches(&infrav1.NstanceMachinePool{}, handler.EnqueueRequestsFromMapFunc(r.ofPool), builder.WithPredicates(capi.SpecChanged())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster), builder.WithPredicates(capi.ClusterChanged())).
		WatchesRawSource(news.Source(collect.Later, r.concerned)).
		WithOptions(options).
		Complete(status.RequeueConflicts(r))
}

// facts are what of its own status may ask for another pass: what else a pass writes there says what it did.
func facts(o client.Object) any {
	object, ok := o.(*infrav1.NstanceShardGroup)
	if !ok {
		return nil
	}
	return []any{object.Status.IsStatic, object.Status.Repairs}
}

// ofPool returns the objects of a pool that changed: whether it is being deleted matters
// to them.
func (r *Reconciler) ofPool(ctx context.Context, object client.Object) []reconcile.Request {
	pool, ok := object.(*infrav1.NstanceMachinePool)
	if !ok {
		return nil
	}
	return r.list(ctx, client.InNamespace(pool.Namespace), client.MatchingLabels{infrav1.LabelGroup: pool.Spec.Group}, indexes.OfGroup(pool.Spec.Group))
}

// ofCluster returns the objects of a Cluster that changed: it may have been paused.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return r.list(ctx, client.InNamespace(cluster.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()})
}

// concerned returns the objects about which something new is known: those of a group on
// its shard, and all of a shard that changed itself.
func (r *Reconciler) concerned(ctx context.Context, changes []inventory.ShardChange) []reconcile.Request {
	changed := map[[2]string]bool{} // shard and group; the empty group is the shard itself
	for _, c := range changes {
		changed[[2]string{c.Shard, c.Group}] = true
	}
	var list infrav1.NstanceShardGroupList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache ends with the process
	}
	var requests []reconcile.Request
	for i := range list.Items {
		object := &list.Items[i]
		if changed[[2]string{object.Spec.Shard, object.Spec.Group}] || changed[[2]string{object.Spec.Shard, ""}] {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
		}
	}
	return requests
}

func (r *Reconciler) list(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	var list infrav1.NstanceShardGroupList
	if err := r.Client.List(ctx, &list, options...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list NstanceShardGroups")
		return nil
	}
	requests := make([]reconcile.Request, len(list.Items))
	for i, object := range list.Items {
		requests[i] = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: object.Namespace, Name: object.Name}}
	}
	return requests
}
