package capacityrequest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
)

// The indexes: requests by the UID of their Pod, Pods by the claims that they mount.
const (
	byPod   = "ownedByPod"
	byClaim = "claim"
)

// Index is one that the cache needs.
type Index struct {
	Of    client.Object
	Field string
	By    client.IndexerFunc
}

// Indexes are those that a Reconciler reads by.
func Indexes() []Index {
	return []Index{
		{&demandv1.CapacityRequest{}, byPod, func(o client.Object) []string {
			if uid := o.GetLabels()[demandv1.LabelOwnedByPod]; uid != "" {
				return []string{uid}
			}
			return nil
		}},
		{&corev1.Pod{}, byClaim, func(o client.Object) []string {
			if pod, ok := o.(*corev1.Pod); ok {
				return claims(pod)
			}
			return nil
		}},
	}
}

// SetupWithManager makes a manager run the reconciler over the Pods of a cluster, which may be another one
// than the manager's own.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, pods cluster.Cluster, o controller.Options) error {
	for _, index := range Indexes() {
		if err := pods.GetFieldIndexer().IndexField(ctx, index.Of, index.Field, index.By); err != nil {
			return fmt.Errorf("index %T by %s: %w", index.Of, index.Field, err)
		}
	}
	b := builder.ControllerManagedBy(mgr).
		Named("capacityrequest").
		WatchesRawSource(source.Kind(pods.GetCache(), &corev1.Pod{}, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{})).
		WatchesRawSource(source.Kind(pods.GetCache(), &demandv1.CapacityRequest{},
			handler.TypedEnqueueRequestsFromMapFunc(ofRequest), meddled())).
		WithOptions(o)
	if r.opts.Translation().VolumeTopology {
		b = b.WatchesRawSource(source.Kind(pods.GetCache(), &corev1.PersistentVolumeClaim{}, handler.TypedEnqueueRequestsFromMapFunc(r.ofClaim)))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("controller capacityrequest: %w", err)
	}
	return nil
}

// ofRequest returns the Pod that a request was made for.
func ofRequest(_ context.Context, made *demandv1.CapacityRequest) []reconcile.Request {
	for _, owner := range made.OwnerReferences {
		if owner.Kind == "Pod" && string(owner.UID) == made.Labels[demandv1.LabelOwnedByPod] {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: made.Namespace, Name: owner.Name}}}
		}
	}
	return nil
}

// meddled are the events of requests that somebody else has caused: one was deleted, or asks for something
// else. What is made and acknowledged is no news.
func meddled() predicate.TypedPredicate[*demandv1.CapacityRequest] {
	return predicate.TypedFuncs[*demandv1.CapacityRequest]{
		CreateFunc: func(event.TypedCreateEvent[*demandv1.CapacityRequest]) bool { return false },
		UpdateFunc: func(e event.TypedUpdateEvent[*demandv1.CapacityRequest]) bool {
			return !equality.Semantic.DeepEqual(e.ObjectOld.Spec, e.ObjectNew.Spec)
		},
	}
}

// ofClaim returns the Pods that mount a claim.
func (r *Reconciler) ofClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) []reconcile.Request {
	var pods corev1.PodList
	err := r.opts.Cache.List(ctx, &pods, client.InNamespace(claim.Namespace), client.MatchingFields{byClaim: claim.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil // the cache ends with the process
	}
	all := make([]reconcile.Request, 0, len(pods.Items))
	for i := range pods.Items {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods.Items[i])})
	}
	return all
}
