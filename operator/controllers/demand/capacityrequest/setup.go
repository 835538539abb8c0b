package capacityrequest

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	"nstance.dev/operator/demand/translate"
	"nstance.dev/operator/demand/volumes"
)

// The indexes: requests that are not named after their Pod by its UID, Pods by the claims that they mount. An entry
// takes as much memory as a request, and those that are named after their Pod are found without.
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
			uid := types.UID(o.GetLabels()[demandv1.LabelOwnedByPod])
			if uid == "" {
				return nil
			}
			for _, owner := range o.GetOwnerReferences() {
				if owner.UID == uid && o.GetName() == translate.Name(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: owner.Name, UID: uid}}) {
					return nil
				}
			}
			return []string{string(uid)}
		}},
		{&corev1.Pod{}, byClaim, func(o client.Object) []string {
			if pod, ok := o.(*corev1.Pod); ok {
				return volumes.Claims(pod)
			}
			return nil
		}},
	}
}

// ClassesChanged says that the default penalties of these PriorityClasses have changed.
type ClassesChanged = event.TypedGenericEvent[[]string]

// SetupWithManager makes a manager run the reconciler over the Pods of a cluster, which may be another one
// than the manager's own. Pods are looked at again when they, their requests or their volumes change, and when
// changed says so of their PriorityClass.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, pods cluster.Cluster, changed <-chan ClassesChanged, o controller.Options) error {
	for _, index := range Indexes() {
		if err := pods.GetFieldIndexer().IndexField(ctx, index.Of, index.Field, index.By); err != nil {
			return fmt.Errorf("index %T by %s: %w", index.Of, index.Field, err)
		}
	}
	b := builder.ControllerManagedBy(mgr).
		Named("capacityrequest").
		WatchesRawSource(source.Kind(pods.GetCache(), &corev1.Pod{}, &arrivals{requested: r.requested})).
		WatchesRawSource(source.Kind(pods.GetCache(), &demandv1.CapacityRequest{},
			handler.TypedEnqueueRequestsFromMapFunc(ofRequest), changedByOthers())).
		WatchesRawSource(source.Channel(changed, handler.TypedEnqueueRequestsFromMapFunc(r.ofClasses))).
		WithOptions(o)
	if r.opts.Translation().VolumeTopology {
		b = b.
			WatchesRawSource(source.Kind(pods.GetCache(), &corev1.PersistentVolumeClaim{},
				handler.TypedEnqueueRequestsFromMapFunc(r.ofClaim), notListed[*corev1.PersistentVolumeClaim]())).
			WatchesRawSource(source.Kind(pods.GetCache(), &corev1.PersistentVolume{},
				handler.TypedEnqueueRequestsFromMapFunc(r.ofVolume), notListed[*corev1.PersistentVolume]())).
			WatchesRawSource(source.Kind(pods.GetCache(), &storagev1.StorageClass{},
				handler.TypedEnqueueRequestsFromMapFunc(r.ofStorageClass), notListed[*storagev1.StorageClass]()))
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

// changedByOthers are the events of requests that this controller has not caused: one was deleted, or asks
// for something else. That one was made or acknowledged is no reason to look at its Pod.
func changedByOthers() predicate.TypedPredicate[*demandv1.CapacityRequest] {
	return predicate.TypedFuncs[*demandv1.CapacityRequest]{
		CreateFunc: func(event.TypedCreateEvent[*demandv1.CapacityRequest]) bool { return false },
		UpdateFunc: func(e event.TypedUpdateEvent[*demandv1.CapacityRequest]) bool {
			return !equality.Semantic.DeepEqual(e.ObjectOld.Spec, e.ObjectNew.Spec)
		},
	}
}

// notListed are the events of volumes, but those of the first list: the Pods of that time are looked at by their
// own list, and the workers start when all lists are there.
func notListed[T client.Object]() predicate.TypedPredicate[T] {
	return predicate.TypedFuncs[T]{CreateFunc: func(e event.TypedCreateEvent[T]) bool { return !e.IsInInitialList }}
}

// ofClaim returns the Pods that mount a claim.
func (r *Reconciler) ofClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) []reconcile.Request {
	return r.mounting(ctx, client.ObjectKeyFromObject(claim))
}

// ofVolume returns the Pods that mount the claim that a volume is bound to.
func (r *Reconciler) ofVolume(ctx context.Context, volume *corev1.PersistentVolume) []reconcile.Request {
	if volume.Spec.ClaimRef == nil {
		return nil
	}
	return r.mounting(ctx, client.ObjectKey{Namespace: volume.Spec.ClaimRef.Namespace, Name: volume.Spec.ClaimRef.Name})
}

// ofStorageClass returns the Pods that mount a claim of a class that has no volume yet.
func (r *Reconciler) ofStorageClass(ctx context.Context, class *storagev1.StorageClass) []reconcile.Request {
	var claims corev1.PersistentVolumeClaimList
	if r.opts.Cache.List(ctx, &claims, client.UnsafeDisableDeepCopy) != nil {
		return nil // the cache ends with the process
	}
	var all []reconcile.Request
	for i := range claims.Items {
		if c := &claims.Items[i]; c.Spec.VolumeName == "" && c.Spec.StorageClassName != nil && *c.Spec.StorageClassName == class.Name {
			all = append(all, r.ofClaim(ctx, c)...)
		}
	}
	return all
}

func (r *Reconciler) mounting(ctx context.Context, claim client.ObjectKey) []reconcile.Request {
	return r.pods(ctx, nil, client.InNamespace(claim.Namespace), client.MatchingFields{byClaim: claim.Name})
}

// ofClasses returns the Pods of PriorityClasses.
func (r *Reconciler) ofClasses(ctx context.Context, classes []string) []reconcile.Request {
	return r.pods(ctx, func(pod *corev1.Pod) bool { return slices.Contains(classes, pod.Spec.PriorityClassName) })
}

// pods returns those Pods of a list that are wanted; nil: all of it.
func (r *Reconciler) pods(ctx context.Context, wanted func(*corev1.Pod) bool, o ...client.ListOption) []reconcile.Request {
	var pods corev1.PodList
	if r.opts.Cache.List(ctx, &pods, append(o, client.UnsafeDisableDeepCopy)...) != nil {
		return nil // the cache ends with the process
	}
	var all []reconcile.Request
	for i := range pods.Items {
		if pod := &pods.Items[i]; wanted == nil || wanted(pod) {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
		}
	}
	return all
}
