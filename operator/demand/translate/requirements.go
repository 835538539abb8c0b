package translate

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// longestLabel is the most bytes that the value of a label has: no Node has a longer one.
const longestLabel = 63

// nodeRequirements returns what the Pod's nodeSelector and its required affinity to Nodes
// demand. Preferences are kube-scheduler's alone: they change nothing about what is needed.
func nodeRequirements(pod *corev1.Pod, o Options, w *warnings) (required []demandv1.Requirement, alternatives []demandv1.Alternative) {
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		required = append(required, demandv1.Requirement{
			Key: key, Operator: demandv1.OperatorIn, Values: []string{pod.Spec.NodeSelector[key]},
		})
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return required, nil
	}
	more, alternatives := affinityTerms(affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, o, w)
	return append(required, more...), alternatives
}

// affinityTerms returns the terms, of which one has to hold: one as requirements, several as
// alternatives.
func affinityTerms(terms []corev1.NodeSelectorTerm, o Options, w *warnings) ([]demandv1.Requirement, []demandv1.Alternative) {
	var possible [][]demandv1.Requirement
	for _, term := range terms {
		if rs, ok := affinityTerm(term, o, w); ok {
			possible = append(possible, rs)
		}
	}
	if len(possible) == 0 {
		// No Node is chosen by these terms, so no machine is either.
		return []demandv1.Requirement{
			{Key: corev1.LabelInstanceTypeStable, Operator: demandv1.OperatorExists},
			{Key: corev1.LabelInstanceTypeStable, Operator: demandv1.OperatorDoesNotExist},
		}, nil
	}
	if len(possible) > 1 && (!o.Alternatives || len(possible) > demandv1.MostAlternatives) {
		w.addf(MultipleAffinityTerms, "of %d terms of node affinity the first one counts alone", len(possible))
		possible = possible[:1]
	}
	slices.SortFunc(possible, func(a, b []demandv1.Requirement) int { return slices.CompareFunc(a, b, compare) })
	possible = slices.CompactFunc(possible, func(a, b []demandv1.Requirement) bool { return slices.CompareFunc(a, b, compare) == 0 })
	if len(possible[0]) == 0 {
		// One of the terms demands nothing that can be expressed, so together they demand nothing.
		return nil, nil
	}
	if len(possible) == 1 {
		return possible[0], nil
	}
	alternatives := make([]demandv1.Alternative, len(possible))
	for i, rs := range possible {
		alternatives[i].Requirements = rs
	}
	return nil, alternatives
}

// affinityTerm returns one term, and whether a Node can match it at all: an empty one and an
// invalid one match none, as for kube-scheduler.
func affinityTerm(term corev1.NodeSelectorTerm, o Options, w *warnings) (rs []demandv1.Requirement, possible bool) {
	if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
		return nil, false
	}
	if len(term.MatchFields) > 0 {
		w.add(MatchFields, "matchFields of node affinity are ignored")
	}
	for _, e := range term.MatchExpressions {
		r, ok := requirement(e, o, w)
		if !ok {
			w.addf(InvalidRequirement, "no Node can match %s %s %q of node affinity", e.Key, e.Operator, e.Values)
			return nil, false
		}
		rs = append(rs, r)
	}
	return truncate(normal(rs), demandv1.MostRequirements, TooManyRequirements, w), true
}

// requirement returns one expression, and whether a Node can match it. As for kube-scheduler none can where a value could
// not be that of a label: a number below 0 is none either.
func requirement(e corev1.NodeSelectorRequirement, o Options, w *warnings) (demandv1.Requirement, bool) {
	r := demandv1.Requirement{Key: e.Key, Operator: demandv1.Operator(e.Operator)}
	if slices.ContainsFunc(e.Values, func(v string) bool { return len(validation.IsValidLabelValue(v)) > 0 }) {
		return r, false
	}
	switch e.Operator {
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		return r, len(e.Values) == 0
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		return listRequirement(r, e.Values, w)
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(e.Values) != 1 {
			return r, false
		}
		n, err := strconv.ParseInt(e.Values[0], 10, 64)
		if err != nil {
			return r, false
		}
		if !o.Alternatives {
			w.addf(UnsupportedOperator, "%s of node affinity counts as Exists", e.Operator)
			r.Operator = demandv1.OperatorExists
			return r, true
		}
		r.Values = []string{strconv.FormatInt(n, 10)}
		return r, true
	default:
		return r, false
	}
}

// listRequirement fills in the values of In and NotIn. No Node has a value longer than a label's.
func listRequirement(r demandv1.Requirement, values []string, w *warnings) (demandv1.Requirement, bool) {
	if len(values) == 0 {
		return r, false
	}
	for _, v := range values {
		if len(v) <= longestLabel {
			r.Values = append(r.Values, v)
		}
	}
	slices.Sort(r.Values)
	r.Values = slices.Compact(r.Values)
	switch most := demandv1.MostValues; {
	case len(r.Values) == 0 && r.Operator == demandv1.OperatorIn:
		return r, false
	case len(r.Values) == 0: // not one of what nothing is
		r.Values = []string{""}
	case len(r.Values) > most && r.Operator == demandv1.OperatorIn:
		w.addf(TooManyRequirements, "%s In %d values counts as Exists", r.Key, len(r.Values))
		r.Operator, r.Values = demandv1.OperatorExists, nil
	case len(r.Values) > most:
		w.addf(TooManyRequirements, "of %s NotIn %d values the first %d count", r.Key, len(r.Values), most)
		r.Values = r.Values[:most:most]
	}
	return r, true
}

// normal sorts the requirements by key, operator and values, and removes duplicates.
func normal(rs []demandv1.Requirement) []demandv1.Requirement {
	slices.SortFunc(rs, compare)
	return slices.CompactFunc(rs, func(a, b demandv1.Requirement) bool { return compare(a, b) == 0 })
}

func compare(a, b demandv1.Requirement) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(string(a.Operator), string(b.Operator)), slices.Compare(a.Values, b.Values))
}

// tolerations returns those that decide where a Pod may run. The two that every Pod gets, for
// Nodes that are not ready, say nothing about machines.
func tolerations(pod *corev1.Pod, w *warnings) []demandv1.Toleration {
	var all []demandv1.Toleration
	for _, t := range pod.Spec.Tolerations {
		if t.Effect == corev1.TaintEffectPreferNoSchedule || isDefault(t) {
			continue
		}
		kept := demandv1.Toleration{Key: t.Key, Effect: demandv1.TolerationEffect(t.Effect)}
		switch t.Operator {
		case corev1.TolerationOpExists:
			kept.Operator = "Exists"
		case corev1.TolerationOpEqual, "":
			kept.Operator, kept.Value = "Equal", t.Value
		default:
			w.addf(UnsupportedOperator, "the toleration of %s with %s is ignored", t.Key, t.Operator)
			continue
		}
		all = append(all, kept)
	}
	slices.SortFunc(all, func(a, b demandv1.Toleration) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	return truncate(slices.Compact(all), demandv1.MostTolerations, TooManyConstraints, w)
}

func isDefault(t corev1.Toleration) bool {
	return (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable) &&
		t.Operator == corev1.TolerationOpExists && t.Effect == corev1.TaintEffectNoExecute
}
