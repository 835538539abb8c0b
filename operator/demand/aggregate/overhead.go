package aggregate

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/protos/needs"
)

// MostOverheads is how many DaemonSets a roll-up may speak of.
const MostOverheads = 256

// Overheads returns what each machine carries for DaemonSets: one for each, sorted by
// namespace and name. Its resources are all that it takes of a machine, its one Pod of `pods`
// included: a shard subtracts them as they are. Of more than [MostOverheads] the rest is left
// out, as is one that cannot be expressed; skipped says how many.
func Overheads(daemonSets []*appsv1.DaemonSet, o translate.Options) (overheads []needs.Overhead, skipped int) {
	sorted := slices.SortedFunc(slices.Values(daemonSets), func(a, b *appsv1.DaemonSet) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, ds := range sorted {
		overhead, err := overhead(ds, o)
		if err != nil || len(overheads) == MostOverheads {
			skipped++
			continue
		}
		overheads = append(overheads, overhead)
	}
	return overheads, skipped
}

func overhead(ds *appsv1.DaemonSet, o translate.Options) (needs.Overhead, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Name: ds.Name},
		Spec:       ds.Spec.Template.Spec,
	}
	spec := translate.Build(pod, translate.Volumes{}, o).Spec
	spec.Tolerations = append(added(pod), spec.Tolerations...)
	if most := demandv1.MostTolerations; len(spec.Tolerations) > most {
		spec.Tolerations = spec.Tolerations[:most]
	}
	spec.CoLocation, spec.TopologySpread = nil, nil // of a Pod for each Node they say nothing
	s, err := shapeOf(&spec, nil)
	if err != nil {
		return needs.Overhead{}, err
	}
	amounts, err := vector(nil, spec.Resources.Requests)
	if err != nil {
		return needs.Overhead{}, err
	}
	return needs.Overhead{
		Requirements: s.profile.Requirements, Alternatives: s.profile.Alternatives,
		Tolerations: s.profile.Tolerations, Resources: amounts,
	}, nil
}

// added returns the tolerations that the DaemonSet controller gives each of its Pods.
func added(pod *corev1.Pod) []demandv1.Toleration {
	all := []demandv1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: "Exists", Effect: "NoExecute"},
		{Key: corev1.TaintNodeUnreachable, Operator: "Exists", Effect: "NoExecute"},
		{Key: corev1.TaintNodeDiskPressure, Operator: "Exists", Effect: "NoSchedule"},
		{Key: corev1.TaintNodeMemoryPressure, Operator: "Exists", Effect: "NoSchedule"},
		{Key: corev1.TaintNodePIDPressure, Operator: "Exists", Effect: "NoSchedule"},
		{Key: corev1.TaintNodeUnschedulable, Operator: "Exists", Effect: "NoSchedule"},
	}
	if pod.Spec.HostNetwork {
		all = append(all, demandv1.Toleration{Key: corev1.TaintNodeNetworkUnavailable, Operator: "Exists", Effect: "NoSchedule"})
	}
	return all
}
