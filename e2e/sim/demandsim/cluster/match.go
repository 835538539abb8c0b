package cluster

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// shape is what the scheduler reads of a template, once.
type shape struct {
	affinity, apart []term // between Pods
	spread          []spread
	linked          bool // whether it fits depends on where other Pods are
}

// term is a required affinity or anti-affinity term.
type term struct {
	key      string
	selector labels.Selector
}

type spread struct {
	term
	skew int
}

func shapeOf(t *corev1.PodTemplateSpec) (s shape) {
	if a := t.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			s.affinity = terms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
		if a.PodAntiAffinity != nil {
			s.apart = terms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for _, c := range t.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			s.spread = append(s.spread, spread{term{c.TopologyKey, selectorOf(c.LabelSelector)}, int(c.MaxSkew)})
		}
	}
	s.linked = len(s.affinity)+len(s.apart)+len(s.spread) > 0
	return s
}

func terms(all []corev1.PodAffinityTerm) (out []term) {
	for _, t := range all {
		out = append(out, term{t.TopologyKey, selectorOf(t.LabelSelector)})
	}
	return out
}

func selectorOf(s *metav1.LabelSelector) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		panic("a template of the world has a selector that is not valid: " + err.Error())
	}
	return selector
}

// admits is true where the Node itself takes Pods of the spec: it is ready, not cordoned, its
// taints are tolerated, and it has what selector and required node affinity ask for.
func (n *Node) admits(spec *corev1.PodSpec, daemon bool) bool {
	if n.Object.Spec.Unschedulable && !daemon || !n.Ready() {
		return false
	}
	return Tolerates(spec.Tolerations, n.Object.Spec.Taints) && Selects(spec, n.Object.Labels)
}

// Ready says what the Ready condition of the Node says.
func (n *Node) Ready() bool {
	for _, c := range n.Object.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Tolerates is true if each taint that keeps Pods away is tolerated.
func Tolerates(tolerations []corev1.Toleration, taints []corev1.Taint) bool {
	for i := range taints {
		if taints[i].Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if !slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool { return tolerates(&t, &taints[i]) }) {
			return false
		}
	}
	return true
}

func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	switch {
	case t.Effect != "" && t.Effect != taint.Effect, t.Key != "" && t.Key != taint.Key:
		return false
	case t.Operator == corev1.TolerationOpExists:
		return true
	default:
		return t.Key != "" && t.Value == taint.Value
	}
}

// Selects is true if a Node with these labels has what the node selector and one of the required
// node affinity terms of the spec ask for.
func Selects(spec *corev1.PodSpec, has map[string]string) bool {
	for key, value := range spec.NodeSelector {
		if got, ok := has[key]; !ok || got != value {
			return false
		}
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return true
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return true
	}
	return slices.ContainsFunc(required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return len(t.MatchExpressions) > 0 && !slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return !holds(r, has) })
	})
}

func holds(r corev1.NodeSelectorRequirement, has map[string]string) bool {
	value, ok := has[r.Key]
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return ok && slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !ok || !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpExists:
		return ok
	case corev1.NodeSelectorOpDoesNotExist:
		return !ok
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		got, err := strconv.ParseInt(value, 10, 64)
		want, err2 := strconv.ParseInt(r.Values[0], 10, 64)
		if err != nil || err2 != nil {
			return false
		}
		return r.Operator == corev1.NodeSelectorOpGt && got > want || r.Operator == corev1.NodeSelectorOpLt && got < want
	}
	return false
}
