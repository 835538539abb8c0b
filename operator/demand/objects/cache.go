package objects

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// Requests caches the CapacityRequests of all namespaces.
func Requests() cache.ByObject {
	return cache.ByObject{Namespaces: everywhere(), Transform: trimRequest}
}

// Claims caches the PersistentVolumeClaims of all namespaces: which volume and class each has.
func Claims() cache.ByObject { return cache.ByObject{Namespaces: everywhere(), Transform: trimClaim} }

// Volumes caches PersistentVolumes: where each is, and whose.
func Volumes() cache.ByObject { return cache.ByObject{Transform: trimVolume} }

// Classes caches StorageClasses: where volumes of each may be made.
func Classes() cache.ByObject { return cache.ByObject{Transform: trimClass} }

func everywhere() map[string]cache.Config {
	return map[string]cache.Config{cache.AllNamespaces: {}}
}

// trimRequest leaves out what is written by and for tools.
func trimRequest(o any) (any, error) {
	if r, ok := o.(*demandv1.CapacityRequest); ok {
		r.ManagedFields, r.Annotations = nil, nil
	}
	return o, nil
}

func trimClaim(o any) (any, error) {
	if c, ok := o.(*corev1.PersistentVolumeClaim); ok {
		c.ObjectMeta = named(c.ObjectMeta)
		c.Spec = corev1.PersistentVolumeClaimSpec{VolumeName: c.Spec.VolumeName, StorageClassName: c.Spec.StorageClassName}
		c.Status = corev1.PersistentVolumeClaimStatus{}
	}
	return o, nil
}

func trimVolume(o any) (any, error) {
	if v, ok := o.(*corev1.PersistentVolume); ok {
		v.ObjectMeta = named(v.ObjectMeta)
		v.Spec = corev1.PersistentVolumeSpec{NodeAffinity: v.Spec.NodeAffinity, ClaimRef: v.Spec.ClaimRef}
		v.Status = corev1.PersistentVolumeStatus{}
	}
	return o, nil
}

func trimClass(o any) (any, error) {
	if c, ok := o.(*storagev1.StorageClass); ok {
		*c = storagev1.StorageClass{TypeMeta: c.TypeMeta, ObjectMeta: named(c.ObjectMeta), AllowedTopologies: c.AllowedTopologies}
	}
	return o, nil
}

// named leaves what an object is known by.
func named(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
}
