package reclaim

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// kept are the annotations of a Pod that a check of the room reads.
var kept = []string{
	corev1.MirrorPodAnnotationKey, demandv1.AnnotationDoNotEvict, demandv1.AnnotationKarpenterDoNotDisrupt, demandv1.AnnotationSafeToEvict,
}

// Keep puts into a cache of Pods what is read here of one beside what its CapacityRequest follows
// from: labels, by which Pods keep apart, and the annotations that keep a machine.
func Keep(from, into *corev1.Pod) {
	into.Labels, into.DeletionTimestamp = from.Labels, from.DeletionTimestamp
	for _, key := range kept {
		value, there := from.Annotations[key]
		if !there {
			continue
		}
		if into.Annotations == nil {
			into.Annotations = map[string]string{}
		}
		into.Annotations[key] = strings.Clone(value)
	}
}
