package rollup

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keep puts into a cache of Pods what this package reads of one beside what it is translated
// from: where it runs, whether it ends, and since when kube-scheduler finds no Node for it. The
// labels are kept of those alone that must not share a host with others.
func Keep(from, into *corev1.Pod) {
	into.DeletionTimestamp = from.DeletionTimestamp
	if owner := metav1.GetControllerOfNoCopy(from); owner != nil && len(into.OwnerReferences) == 0 {
		into.OwnerReferences = []metav1.OwnerReference{{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Controller: owner.Controller}}
	}
	into.Spec.NodeName, into.Status.Phase = from.Spec.NodeName, from.Status.Phase
	if a := from.Spec.Affinity; a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		if into.Labels = maps.Clone(into.Labels); into.Labels == nil {
			into.Labels = map[string]string{}
		}
		maps.Copy(into.Labels, from.Labels)
	}
	for i := range from.Status.Conditions {
		c := &from.Status.Conditions[i]
		kept := slices.ContainsFunc(into.Status.Conditions, func(have corev1.PodCondition) bool { return have.Type == c.Type })
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && !kept {
			into.Status.Conditions = append(into.Status.Conditions, corev1.PodCondition{
				Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
}
