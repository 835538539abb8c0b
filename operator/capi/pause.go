package capi

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// Paused reports whether an object is paused: by annotation cluster.x-k8s.io/paused, whatever
// its value, or by spec.paused of the Cluster that its label names. An object without a
// Cluster is not paused by one. One that was [Moved] is paused for good.
func Paused(ctx context.Context, reader client.Reader, object client.Object) (bool, error) {
	if PausedBy(object, &clusterv1.Cluster{}) {
		return true, nil
	}
	name := object.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return false, nil
	}
	var cluster clusterv1.Cluster
	err := reader.Get(ctx, client.ObjectKey{Namespace: object.GetNamespace(), Name: name}, &cluster)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look whether Cluster %s is paused: %w", name, err)
	}
	return PausedBy(object, &cluster), nil
}

// PausedBy is [Paused] for a Cluster that has been read already; the zero one pauses nothing.
func PausedBy(object client.Object, cluster *clusterv1.Cluster) bool {
	_, paused := object.GetAnnotations()[clusterv1.PausedAnnotation]
	return paused || Moved(object) || ptr.Deref(cluster.Spec.Paused, false)
}

// Moved reports whether `clusterctl move` has copied an object to another management
// cluster and deletes what is left here. It replaces all other annotations by its own, and
// takes the finalizers off itself; what the object stands for stays.
func Moved(object client.Object) bool {
	_, moved := object.GetAnnotations()[infrav1.AnnotationDeleteForMove]
	return moved
}

// ClusterChanged passes on those changes of a Cluster that matter to its objects: whether it
// is paused, provisioned, being deleted, and what its control plane is. Cluster API writes the
// status of a Cluster whenever any of its machines changes, and each Cluster that is passed
// on wakes all of them.
func ClusterChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*clusterv1.Cluster)
			after, also := e.ObjectNew.(*clusterv1.Cluster)
			return !ok || !also || matters(before) != matters(after)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return true },
	}
}

type clusterState struct {
	paused, provisioned, deleting bool
	controlPlane                  clusterv1.ContractVersionedObjectReference
}

func matters(c *clusterv1.Cluster) clusterState {
	return clusterState{
		paused: ptr.Deref(c.Spec.Paused, false), provisioned: ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false),
		deleting: !c.DeletionTimestamp.IsZero(), controlPlane: c.Spec.ControlPlaneRef,
	}
}
