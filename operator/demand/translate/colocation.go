package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/protos/needs"
)

// coLocation returns the first required term of the affinity of the Pod to other Pods.
// Anti-affinity is no demand for a kind of machine: it shows when a Pod stays unschedulable.
func coLocation(pod *corev1.Pod, w *warnings) *demandv1.CoLocation {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAffinity == nil {
		return nil
	}
	terms := pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(terms) == 0 {
		return nil
	}
	if len(terms) > 1 {
		w.addf(MultiplePodAffinityTerms, "of %d terms of affinity to Pods the first one counts alone", len(terms))
	}
	term := terms[0]
	return &demandv1.CoLocation{
		TopologyKey:   term.TopologyKey,
		LabelSelector: term.LabelSelector.DeepCopy(),
		Namespaces:    namespaces(pod, term),
		AllOrNothing:  allOrNothing(pod),
	}
}

// namespaces returns the namespaces that a term is about: those it lists, those it selects,
// or else the Pod's own.
func namespaces(pod *corev1.Pod, term corev1.PodAffinityTerm) []string {
	all := slices.Clone(term.Namespaces)
	if term.NamespaceSelector != nil {
		all = append(all, needs.NamespaceSelectorPrefix+CanonicalSelector(term.NamespaceSelector))
	}
	if len(all) == 0 {
		return []string{pod.Namespace}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// allOrNothing says whether the Pod is of use only together with others. Affinity alone does
// not say so: six replicas that want one rack are still useful as four.
func allOrNothing(pod *corev1.Pod) bool {
	return pod.Annotations[demandv1.AnnotationAllOrNothing] == "true" || pod.Labels[demandv1.LabelPodGroup] != ""
}

// CanonicalSelector returns the canonical text of a selector of Kubernetes. That of nil is
// the one of an empty selector.
func CanonicalSelector(selector *metav1.LabelSelector) string { return Selector(selector).Canonical() }

// Selector returns a selector of Kubernetes as one of package needs.
func Selector(selector *metav1.LabelSelector) needs.Selector {
	if selector == nil {
		return needs.Selector{}
	}
	s := needs.Selector{MatchLabels: selector.MatchLabels}
	for _, e := range selector.MatchExpressions {
		// An operator that does not exist was refused by the API server.
		operator, _ := needs.ParseOperator(string(e.Operator))
		s.MatchExpressions = append(s.MatchExpressions, needs.Requirement{Key: e.Key, Operator: operator, Values: e.Values})
	}
	return s
}

// LabelSelector returns the selector of Kubernetes of which [CanonicalSelector] returns a text; false:
// there is none that it accepts.
func LabelSelector(canonical string) (labels.Selector, bool) {
	read, ok := needs.ParseSelector(canonical)
	if !ok {
		return nil, false
	}
	s := &metav1.LabelSelector{MatchLabels: read.MatchLabels}
	for _, r := range read.MatchExpressions {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator.String()), Values: r.Values})
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return selector, err == nil
}
