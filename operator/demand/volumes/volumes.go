// Package volumes reads what is known of the volumes of a Pod, for its translation.
//
// Claims, volumes and storage classes are read one by one, from a cache. What does not exist yet
// says nothing, so a Pod has to be looked at again when one of its claims changes.
package volumes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/operator/demand/translate"
)

// Claims are the names of the claims of a Pod, in its namespace.
func Claims(pod *corev1.Pod) []string {
	var all []string
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			all = append(all, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil: // https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#persistentvolumeclaim-naming
			all = append(all, pod.Name+"-"+v.Name)
		}
	}
	return all
}

// Of returns what a cache has of the claims of a Pod.
func Of(ctx context.Context, cache client.Reader, pod *corev1.Pod) (v translate.Volumes, err error) {
	for _, name := range Claims(pod) {
		claim := &corev1.PersistentVolumeClaim{}
		found, err := get(ctx, cache, client.ObjectKey{Namespace: pod.Namespace, Name: name}, claim)
		if err != nil {
			return v, err
		}
		switch {
		case !found:
		case claim.Spec.VolumeName != "":
			volume := &corev1.PersistentVolume{}
			if found, err = get(ctx, cache, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
				return v, err
			}
			if found {
				v.Bound = append(v.Bound, volume)
			}
		case claim.Spec.StorageClassName != nil && *claim.Spec.StorageClassName != "":
			class := &storagev1.StorageClass{}
			if found, err = get(ctx, cache, client.ObjectKey{Name: *claim.Spec.StorageClassName}, class); err != nil {
				return v, err
			}
			if found {
				v.Unbound = append(v.Unbound, class)
			}
		}
	}
	return v, nil
}

// get reads an object; false: there is none.
func get(ctx context.Context, cache client.Reader, key client.ObjectKey, into client.Object) (bool, error) {
	err := cache.Get(ctx, key, into, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("%T %s: %w", into, key, err)
	}
	return err == nil, nil
}
