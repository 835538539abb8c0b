package translate

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// Exclusion says why a Pod asks for no capacity. The zero value: it asks for some.
type Exclusion string

// Exclusions.
const (
	Counted          Exclusion = ""
	MirrorPod        Exclusion = "MirrorPod"        // the kubelet's own
	DaemonSetPod     Exclusion = "DaemonSetPod"     // overhead of each machine, not demand for one
	SchedulingGated  Exclusion = "SchedulingGated"  // asks when its gates are cleared
	IgnoredPod       Exclusion = "Ignored"          // its author says so
	OnDemandInstance Exclusion = "OnDemandInstance" // has an instance of its own
)

// Terminal says whether a Pod has ended: it takes nothing of its Node, however long it is kept.
// A Pod that is being deleted and still runs is not terminal.
func Terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Excluded says whether a Pod that has not ended asks for no capacity, and why.
func Excluded(pod *corev1.Pod) (Exclusion, bool) {
	why := exclusion(pod)
	return why, why != Counted
}

func exclusion(pod *corev1.Pod) Exclusion {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return MirrorPod
	}
	if _, onDemand := pod.Annotations[infrav1.OnDemandGroup]; onDemand {
		return OnDemandInstance
	}
	switch owner := metav1.GetControllerOfNoCopy(pod); {
	case owner != nil && owner.Kind == "DaemonSet":
		return DaemonSetPod
	case len(pod.Spec.SchedulingGates) > 0:
		return SchedulingGated
	case pod.Annotations[demandv1.AnnotationIgnore] == "true":
		return IgnoredPod
	default:
		return Counted
	}
}
