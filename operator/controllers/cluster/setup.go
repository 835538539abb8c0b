package cluster

import (
	"context"
	"slices"

	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	controlplanev1 "nstance.dev/operator/api/controlplane/v1beta1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/collect"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
)

// SetupWithManager makes a manager run the controller for what changes in the cluster and
// in the shards.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, news *inventory.Hub) error {
	first := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(r.request())
		return nil
	})
	ours := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		if object.GetNamespace() != r.Namespace || object.GetName() != r.Name {
			return nil
		}
		return []reconcile.Request{r.request()}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("cluster").
		Watches(&clusterv1.Cluster{}, ours, builder.WithPredicates(capi.SpecChanged())).
		Watches(&infrav1.NstanceCluster{}, ours, builder.WithPredicates(capi.SpecChanged())).
		Watches(&controlplanev1.NstanceControlPlane{}, ours, builder.WithPredicates(capi.SpecChanged())).
		WatchesRawSource(first).
		WatchesRawSource(news.Source(collect.Later, r.of(inventory.ShardChanged))).
		WatchesRawSource(news.Source(collect.Last, r.of(inventory.GroupChanged, inventory.GroupGone))).
		Complete(status.RequeueConflicts(r))
}

// of returns the request if there are changes of some kinds. What instances do shows in the shard table
// within a minute.
func (r *Reconciler) of(kinds ...inventory.Kind) inventory.Keys {
	return func(_ context.Context, changes []inventory.ShardChange) []reconcile.Request {
		if slices.ContainsFunc(changes, func(c inventory.ShardChange) bool { return slices.Contains(kinds, c.Kind) }) {
			return []reconcile.Request{r.request()}
		}
		return nil
	}
}

// request is the one that there is.
func (r *Reconciler) request() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: r.Namespace, Name: r.Name}}
}
