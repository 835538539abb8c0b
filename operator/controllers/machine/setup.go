package machine

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/collect"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/status"
)

// SetupWithManager makes a manager run the reconciler for what changes in the cluster and
// in the shards. The Nodes are those of workload; where they are the manager's own, that is
// the manager itself.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workload cluster.Cluster, news *inventory.Hub, o controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("machine").
		For(&infrav1.NstanceMachine{}, builder.WithPredicates(collect.CreatesAlone())).
		Watches(&infrav1.NstanceMachine{}, collect.Events(collect.Soon, &handler.EnqueueRequestForObject{}), builder.WithPredicates(capi.ChangedIn(facts))).
		Watches(&clusterv1.Machine{}, collect.Events(collect.Soon, handler.EnqueueRequestsFromMapFunc(ofMachine)), builder.WithPredicates(capi.SpecChanged())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster), builder.WithPredicates(capi.ClusterChanged())).
		Watches(&infrav1.NstanceShardGroup{}, handler.EnqueueRequestsFromMapFunc(r.ofShardGroup)).
		WatchesRawSource(source.Kind(workload.GetCache(), &corev1.Node{}, collect.Events(collect.Soon, handler.TypedEnqueueRequestsFromMapFunc(r.ofNode)), inventory.NoHeartbeats())).
		WatchesRawSource(news.Source(collect.Soon, r.changed)).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
}

// facts are what a pass reads of the status of its machine that others write, or that what it
// does itself depends on.
func facts(o client.Object) any {
	m, ok := o.(*infrav1.NstanceMachine)
	if !ok {
		return nil
	}
	return []any{
		m.Status.InstanceID, m.Status.InstanceState == infrav1.InstanceTerminated, m.Status.Initialization.Provisioned, m.Status.NodeRef,
		meta.FindStatusCondition(m.Status.Conditions, infrav1.ConditionServerDeleted), meta.FindStatusCondition(m.Status.Conditions, infrav1.ConditionCapacityAvailable),
	}
}

// ofMachine returns the machine that a Machine refers to.
func ofMachine(_ context.Context, o client.Object) []reconcile.Request {
	m, ok := o.(*clusterv1.Machine)
	if !ok || m.Spec.InfrastructureRef.Kind != infrav1.KindMachine {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key(m.Namespace, m.Spec.InfrastructureRef.Name)}}
}

func (r *Reconciler) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return r.those(ctx, func(m *infrav1.NstanceMachine) bool {
		return m.Namespace == o.GetNamespace() && m.Labels[clusterv1.ClusterNameLabel] == o.GetName()
	})
}

// ofShardGroup returns the machines that a group gets smaller with, and those that wait
// for a place.
func (r *Reconciler) ofShardGroup(ctx context.Context, o client.Object) []reconcile.Request {
	shardGroup, ok := o.(*infrav1.NstanceShardGroup)
	if !ok {
		return nil
	}
	return r.ofGroup(ctx, shardGroup.Spec.Group, func(m *infrav1.NstanceMachine) bool {
		return waits(m) || slices.Contains(shardGroup.Spec.Retiring, m.Spec.InstanceID)
	})
}

// ofNode returns the machines that are being deleted and that a Node may be of: they wait for
// its work to leave.
func (r *Reconciler) ofNode(ctx context.Context, n *corev1.Node) []reconcile.Request {
	machines, err := nodes.MachinesOfNode(ctx, r.Client, metav1.NamespaceAll, n)
	if err != nil {
		return nil // the cache ends with the process
	}
	return requests(machines, func(m *infrav1.NstanceMachine) bool { return !m.DeletionTimestamp.IsZero() })
}

// changed returns the machines that something new is known of.
func (r *Reconciler) changed(ctx context.Context, changes []inventory.ShardChange) []reconcile.Request {
	var all []reconcile.Request
	groups, shards := map[string]bool{}, map[string]bool{}
	for _, c := range changes {
		switch c.Kind {
		case inventory.InstanceChanged, inventory.InstanceGone:
			if m, err := nodes.Machine(ctx, r.Client, metav1.NamespaceAll, c.Instance); err == nil && m != nil {
				all = append(all, wake(m))
			}
		case inventory.GroupChanged, inventory.GroupGone:
			groups[c.Group] = true
		case inventory.ShardChanged:
			shards[c.Shard] = true
		}
	}
	for group := range groups {
		all = append(all, r.ofGroup(ctx, group, waits)...)
	}
	if len(shards) > 0 {
		all = append(all, r.those(ctx, func(m *infrav1.NstanceMachine) bool { return waits(m) || shards[m.Spec.Shard] })...)
	}
	return all
}

// waits is whether a machine has no instance yet, so that any shard may come to have room
// for it.
func waits(m *infrav1.NstanceMachine) bool { return m.Spec.InstanceID == "" }

// ofGroup returns the machines of a group that a question is true of.
func (r *Reconciler) ofGroup(ctx context.Context, group string, concerned func(*infrav1.NstanceMachine) bool) []reconcile.Request {
	machines, err := nodes.MachinesOfGroup(ctx, r.Client, group)
	if err != nil {
		return nil // the cache ends with the process
	}
	return requests(machines, concerned)
}

// those returns the machines in the cache that a question is true of.
func (r *Reconciler) those(ctx context.Context, concerned func(*infrav1.NstanceMachine) bool) []reconcile.Request {
	var list infrav1.NstanceMachineList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache ends with the process
	}
	return requests(list.Items, concerned)
}

func requests(machines []infrav1.NstanceMachine, concerned func(*infrav1.NstanceMachine) bool) []reconcile.Request {
	var all []reconcile.Request
	for i := range machines {
		if m := &machines[i]; concerned(m) {
			all = append(all, wake(m))
		}
	}
	return all
}

func wake(m *infrav1.NstanceMachine) reconcile.Request {
	return reconcile.Request{NamespacedName: key(m.Namespace, m.Name)}
}
