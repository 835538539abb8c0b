package capacityrequest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/operator/demand/translate"
)

// claims are the names of the claims of a Pod.
func claims(pod *corev1.Pod) []string {
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

// volumes returns what is known of the claims of a Pod. What does not exist yet says nothing: the Pod is
// looked at again when it does.
func (r *Reconciler) volumes(ctx context.Context, pod *corev1.Pod) (v translate.Volumes, err error) {
	for _, name := range claims(pod) {
		claim := &corev1.PersistentVolumeClaim{}
		found, err := r.get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, claim)
		if err != nil {
			return v, err
		}
		switch {
		case !found:
		case claim.Spec.VolumeName != "":
			volume := &corev1.PersistentVolume{}
			if found, err = r.get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
				return v, err
			}
			if found {
				v.Bound = append(v.Bound, volume)
			}
		case claim.Spec.StorageClassName != nil && *claim.Spec.StorageClassName != "":
			class := &storagev1.StorageClass{}
			if found, err = r.get(ctx, client.ObjectKey{Name: *claim.Spec.StorageClassName}, class); err != nil {
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
func (r *Reconciler) get(ctx context.Context, key client.ObjectKey, into client.Object) (bool, error) {
	err := r.opts.Cache.Get(ctx, key, into, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("%T %s: %w", into, key, err)
	}
	return err == nil, nil
}
