// Package pause says whether an object is to be left alone: because it says so itself, or
// because its Cluster does.
package pause

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Of reports whether an object is paused: by annotation cluster.x-k8s.io/paused, whatever
// its value, or by spec.paused of the Cluster that its label names. An object without a
// Cluster is not paused by one.
func Of(ctx context.Context, reader client.Reader, object client.Object) (bool, error) {
	if _, paused := object.GetAnnotations()[clusterv1.PausedAnnotation]; paused {
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
	return ptr.Deref(cluster.Spec.Paused, false), nil
}
