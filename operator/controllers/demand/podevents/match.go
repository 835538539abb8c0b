package podevents

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// ahead are the phases of machines that are no Nodes yet, the furthest last.
var ahead = []demandv1.UpcomingNodePhase{demandv1.UpcomingNodeProvisioning, demandv1.UpcomingNodeLaunched, demandv1.UpcomingNodeRegistered}

// fitting returns the machines on their way that a Pod with this request fits on, the furthest first.
func fitting(spec *demandv1.CapacityRequestSpec, all []demandv1.UpcomingNode) []*demandv1.UpcomingNode {
	selector, err := nodeaffinity.NewNodeSelector(selectorOf(spec))
	if err != nil {
		return nil // no Node can match it
	}
	tolerated := tolerationsOf(spec)
	var found []*demandv1.UpcomingNode
	for i := range all {
		n := &all[i]
		if slices.Contains(ahead, n.Status.Phase) && hasRoom(spec, n) && tolerates(tolerated, n.Spec.Taints) &&
			selector.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Spec.Labels}}) {
			found = append(found, n)
		}
	}
	slices.SortFunc(found, func(a, b *demandv1.UpcomingNode) int {
		return cmp.Or(cmp.Compare(slices.Index(ahead, b.Status.Phase), slices.Index(ahead, a.Status.Phase)), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// selectorOf is what a Node must satisfy, as kube-scheduler reads it: a term for each alternative.
func selectorOf(spec *demandv1.CapacityRequestSpec) *corev1.NodeSelector {
	if len(spec.Alternatives) == 0 {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term(spec.Requirements)}}
	}
	selector := &corev1.NodeSelector{}
	for _, a := range spec.Alternatives {
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term(slices.Concat(spec.Requirements, a.Requirements)))
	}
	return selector
}

func term(requirements []demandv1.Requirement) corev1.NodeSelectorTerm {
	var t corev1.NodeSelectorTerm
	for _, r := range requirements {
		t.MatchExpressions = append(t.MatchExpressions, corev1.NodeSelectorRequirement{Key: r.Key, Operator: corev1.NodeSelectorOperator(r.Operator), Values: r.Values})
	}
	if len(t.MatchExpressions) == 0 { // an empty term matches nothing, and no requirement is satisfied by all
		t.MatchFields = []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{""}}}
	}
	return t
}

func tolerationsOf(spec *demandv1.CapacityRequestSpec) []corev1.Toleration {
	var all []corev1.Toleration
	for _, t := range spec.Tolerations {
		all = append(all, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOperator(t.Operator), Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return all
}

func tolerates(tolerations []corev1.Toleration, taints []corev1.Taint) bool {
	keepsAway := func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}
	_, untolerated := schedulingcorev1.FindMatchingUntoleratedTaint(klog.Background(), taints, tolerations, keepsAway, false)
	return !untolerated
}

// hasRoom says whether a machine is large enough for the Pod alone.
func hasRoom(spec *demandv1.CapacityRequestSpec, n *demandv1.UpcomingNode) bool {
	for name, asked := range spec.Resources.Requests {
		has, known := n.Spec.Resources[name]
		if asked.Sign() > 0 && (known || len(n.Spec.Resources) > 0) && asked.Cmp(has) > 0 {
			return false
		}
	}
	return true
}
