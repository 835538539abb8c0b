package ondemand

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
	"nstance.dev/operator/collect"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
)

// SetupWithManager makes a manager run the reconciler. The Pods are those of workload;
// where they are the manager's own, that is the manager itself.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, workload cluster.Cluster, news *inventory.Hub, o controller.Options) error {
	for field, index := range PodIndexes() {
		if err := workload.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, field, index); err != nil {
			return fmt.Errorf("index Pods by %s: %w", field, err)
		}
	}
	asks := predicate.NewTypedPredicateFuncs(Asks)
	ofPod := func(_ context.Context, pod *corev1.Pod) []reconcile.Request {
		return inventory.Request(string(pod.UID))
	}
	err := builder.ControllerManagedBy(mgr).
		Named("ondemand").
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(ofMade)).
		Watches(&infrav1.NstanceMachine{}, handler.EnqueueRequestsFromMapFunc(ofMade)).
		WatchesRawSource(source.Kind(workload.GetCache(), &corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(ofPod), asks)).
		WatchesRawSource(source.Kind(workload.GetCache(), &corev1.Node{}, handler.TypedEnqueueRequestsFromMapFunc(r.ofNode), inventory.NoHeartbeats())).
		WatchesRawSource(news.Source(collect.Soon, r.concerned)).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
	if err != nil {
		return fmt.Errorf("controller ondemand: %w", err)
	}
	return nil
}

// ofMade returns the Pod that an object was made for.
func ofMade(_ context.Context, o client.Object) []reconcile.Request {
	return inventory.Request(o.GetLabels()[infrav1.LabelOnDemandPodUID])
}

// concerned returns the Pods that wait and may be served now: those that ask for a group that
// changed, or any Pod if a shard itself did.
func (r *Reconciler) concerned(ctx context.Context, changes []inventory.ShardChange) []reconcile.Request {
	groups := map[string]bool{}
	for _, c := range changes {
		switch c.Kind {
		case inventory.GroupChanged:
			groups[c.Group] = true
		case inventory.ShardChanged:
			groups[anyGroup] = true
		}
	}
	var all []reconcile.Request
	for group := range groups {
		var pods corev1.PodList
		if err := r.Workload.List(ctx, &pods, client.MatchingFields{byGroup: group}, client.UnsafeDisableDeepCopy); err != nil {
			return nil // the cache ends with the process
		}
		for i := range pods.Items {
			if waits(&pods.Items[i]) {
				all = append(all, inventory.Request(string(pods.Items[i].UID))...)
			}
		}
	}
	return all
}

// waits is whether a Pod has no Node yet, as far as it says itself.
func waits(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && pod.Spec.NodeName == "" && pod.Annotations[infrav1.OnDemandState] != string(infrav1.OnDemandJoined)
}

// ofNode returns the Pod that a Node was made for.
func (r *Reconciler) ofNode(ctx context.Context, n *corev1.Node) []reconcile.Request {
	claim := n.Labels[infrav1.OnDemandClaim]
	if claim == "" {
		return nil
	}
	var list infrav1.NstanceMachineList
	if err := r.Client.List(ctx, &list, client.InNamespace(r.Namespace), client.MatchingLabels{infrav1.OnDemandClaim: claim}); err != nil {
		return nil // the cache ends with the process
	}
	var all []reconcile.Request
	for i := range list.Items {
		all = append(all, ofMade(ctx, &list.Items[i])...)
	}
	return all
}
