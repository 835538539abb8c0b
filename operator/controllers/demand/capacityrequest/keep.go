package capacityrequest

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/demand/translate"
)

// Keep returns what puts into a cache of Pods what this package reads of one, with these settings: a
// projection, for there may be very many Pods.
func Keep(options translate.Options) func(from, into *corev1.Pod) {
	prefixes := options.PenaltyPrefixes
	if len(prefixes) == 0 {
		prefixes = []string{demandv1.AnnotationPrefix}
	}
	kept := map[string]bool{
		corev1.MirrorPodAnnotationKey: true, infrav1.OnDemandGroup: true,
		demandv1.AnnotationIgnore: true, demandv1.AnnotationAllOrNothing: true,
	}
	for _, prefix := range prefixes {
		kept[prefix+"/"+demandv1.InterruptionPenalty] = true
		kept[prefix+"/"+demandv1.ReclamationPenalty] = true
	}
	return func(from, into *corev1.Pod) {
		into.CreationTimestamp = from.CreationTimestamp
		into.Annotations = merge(into.Annotations, from.Annotations, func(key string) bool { return kept[key] })
		into.Labels = merge(into.Labels, from.Labels, func(key string) bool { return key == demandv1.LabelPodGroup })
		if owner := metav1.GetControllerOfNoCopy(from); owner != nil && len(into.OwnerReferences) == 0 {
			into.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Controller: owner.Controller,
			}}
		}
		keepSpec(&from.Spec, &into.Spec)
		keepStatus(&from.Status, &into.Status)
	}
}

// merge adds the entries of a map whose keys are wanted.
func merge(into, from map[string]string, wanted func(string) bool) map[string]string {
	for key, value := range from {
		if _, there := into[key]; there || !wanted(key) {
			continue
		}
		if into == nil {
			into = map[string]string{}
		}
		into[strings.Clone(key)] = strings.Clone(value) // the rest of the Pod goes
	}
	return into
}

func keepSpec(from, into *corev1.PodSpec) {
	into.NodeName, into.NodeSelector, into.Tolerations = from.NodeName, from.NodeSelector, from.Tolerations
	into.TopologySpreadConstraints = from.TopologySpreadConstraints
	if into.Affinity == nil {
		into.Affinity = required(from.Affinity)
	}
	into.Priority, into.PriorityClassName = from.Priority, from.PriorityClassName
	into.SchedulingGates, into.Overhead, into.Resources, into.ResourceClaims = from.SchedulingGates, from.Overhead, from.Resources, from.ResourceClaims
	if len(into.Containers) == 0 {
		into.Containers = containers(from.Containers)
	}
	if len(into.InitContainers) == 0 {
		into.InitContainers = containers(from.InitContainers)
	}
	if len(into.Volumes) > 0 {
		return
	}
	for _, v := range from.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			into.Volumes = append(into.Volumes, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: v.PersistentVolumeClaim}})
		case v.Ephemeral != nil: // its claim is named after the Pod and the volume
			into.Volumes = append(into.Volumes, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
		}
	}
}

// required leaves the rules of an affinity that must hold.
func required(a *corev1.Affinity) *corev1.Affinity {
	if a == nil {
		return nil
	}
	out := &corev1.Affinity{}
	if a.NodeAffinity != nil {
		out.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution}
	}
	if a.PodAffinity != nil {
		out.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution}
	}
	if a.PodAntiAffinity != nil {
		out.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution}
	}
	return out
}

func containers(all []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(all))
	for i := range all {
		out[i] = corev1.Container{
			Name: all[i].Name, RestartPolicy: all[i].RestartPolicy,
			Resources: corev1.ResourceRequirements{Requests: all[i].Resources.Requests},
		}
	}
	return out
}

func keepStatus(from, into *corev1.PodStatus) {
	into.Phase = from.Phase
	for i := range from.Conditions {
		c := &from.Conditions[i]
		kept := slices.ContainsFunc(into.Conditions, func(have corev1.PodCondition) bool { return have.Type == c.Type })
		if c.Type == corev1.PodResizePending && !kept {
			into.Conditions = append(into.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason})
		}
	}
	if len(into.ContainerStatuses) == 0 {
		into.ContainerStatuses = resized(from.ContainerStatuses)
	}
	if len(into.InitContainerStatuses) == 0 {
		into.InitContainerStatuses = resized(from.InitContainerStatuses)
	}
}

// resized leaves what containers were given, where that is said.
func resized(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for i := range all {
		s := &all[i]
		if s.Resources == nil {
			continue
		}
		out = append(out, corev1.ContainerStatus{
			Name: s.Name, AllocatedResources: s.AllocatedResources, Resources: &corev1.ResourceRequirements{Requests: s.Resources.Requests},
		})
	}
	return out
}
