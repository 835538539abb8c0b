package machinepool

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/collect"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/status"
	"nstance.dev/operator/unsent"
)

// SetupWithManager makes a manager run the controller for what changes in the cluster and
// in the shards.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, news *inventory.Hub, options controller.Options) error {
	owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &infrav1.NstanceMachinePool{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("pool").
		For(&infrav1.NstanceMachinePool{}, builder.WithPredicates(capi.ChangedIn(ownFacts))).
		Watches(&infrav1.NstanceShardGroup{}, collect.Events(collect.Later, owner)).
		Watches(&infrav1.NstanceMachine{}, collect.Events(collect.Later, owner), builder.WithPredicates(capi.ChangedIn(infraMachineFacts))).
		Watches(&clusterv1.MachinePool{}, noteSize{handler.EnqueueRequestsFromMapFunc(ofMachinePool), r.Unsent}, builder.WithPredicates(capi.SpecChanged())).
		Watches(&clusterv1.Machine{}, collect.Events(collect.Later, handler.EnqueueRequestsFromMapFunc(r.ofMachine)), builder.WithPredicates(capi.MachineChanged())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster), builder.WithPredicates(capi.ClusterChanged())).
		WatchesRawSource(news.Source(collect.Soon, r.unborn)).
		WatchesRawSource(news.Source(collect.Later, r.concerned)).
		WithOptions(options).
		Complete(status.RequeueConflicts(r))
}

// ownFacts are what a pass reads of the status of its pool.
func ownFacts(o client.Object) any {
	pool, ok := o.(*infrav1.NstanceMachinePool)
	if !ok {
		return nil
	}
	return []any{pool.Status.IsStatic, pool.Status.Learned}
}

// infraMachineFacts are what a pass reads of the status of an NstanceMachine.
func infraMachineFacts(o client.Object) any {
	machine, ok := o.(*infrav1.NstanceMachine)
	if !ok {
		return nil
	}
	return machine.Status.Allocatable
}

// noteSize is the handler of MachinePools: it notes a spec that has changed, then does what the other
// handler does.
type noteSize struct {
	handler.EventHandler
	unsent *unsent.Sizes
}

// Update implements handler.EventHandler.
func (h noteSize) Update(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() {
		for _, pool := range ofMachinePool(ctx, e.ObjectNew) {
			h.unsent.Add(unsent.Pool(pool.NamespacedName), e.ObjectNew.GetGeneration())
		}
	}
	h.EventHandler.Update(ctx, e, q)
}

// ofMachinePool returns the pool that a MachinePool refers to.
func ofMachinePool(_ context.Context, object client.Object) []reconcile.Request {
	machinePool, ok := object.(*clusterv1.MachinePool)
	if !ok {
		return nil
	}
	ref := machinePool.Spec.Template.Spec.InfrastructureRef
	if ref.Kind != infrav1.KindMachinePool || ref.APIGroup != infrav1.GroupVersion.Group {
		return nil
	}
	return []reconcile.Request{request(object.GetNamespace(), ref.Name)}
}

// ofMachine returns the pool of a Machine: that of the NstanceMachine that it has.
func (r *Reconciler) ofMachine(ctx context.Context, object client.Object) []reconcile.Request {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != "MachinePool" {
		return nil
	}
	var machinePool clusterv1.MachinePool
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: object.GetNamespace(), Name: owner.Name}, &machinePool); err != nil {
		return nil // it is gone, or it will be seen by itself
	}
	return ofMachinePool(ctx, &machinePool)
}

// ofCluster returns the pools of a Cluster that changed: it may have been paused.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	var list infrav1.NstanceMachinePoolList
	err := r.Client.List(ctx, &list, client.InNamespace(cluster.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list NstanceMachinePools")
		return nil
	}
	var requests []reconcile.Request
	for _, pool := range list.Items {
		requests = append(requests, request(pool.Namespace, pool.Name))
	}
	return requests
}

// concerned returns the pools about which something new is known: those of a group, and
// those that list a shard that changed itself.
func (r *Reconciler) concerned(ctx context.Context, changes []inventory.ShardChange) []reconcile.Request {
	groups, shards := map[string]bool{}, map[string]bool{}
	for _, c := range changes {
		if c.Group == "" {
			shards[c.Shard] = true
		} else {
			groups[c.Group] = true
		}
	}
	var list infrav1.NstanceMachinePoolList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache ends with the process
	}
	var requests []reconcile.Request
	for i := range list.Items {
		pool := &list.Items[i]
		if groups[pool.Spec.Group] || slices.ContainsFunc(pool.Spec.Shards, func(name string) bool { return shards[name] }) {
			requests = append(requests, request(pool.Namespace, pool.Name))
		}
	}
	return requests
}

// unborn returns the pools of instances that have no NstanceMachine yet: nothing else says of an instance
// that it is there.
func (r *Reconciler) unborn(ctx context.Context, changes []inventory.ShardChange) []reconcile.Request {
	return r.concerned(ctx, slices.DeleteFunc(slices.Clone(changes), func(c inventory.ShardChange) bool {
		if c.Kind != inventory.InstanceChanged {
			return true
		}
		m, err := nodes.Machine(ctx, r.Client, metav1.NamespaceAll, c.Instance)
		return err != nil || m != nil
	}))
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}
}
