package translate

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// A Node satisfies a request if and only if kube-scheduler would say so of the Pod, whatever its node selector and its
// terms are: Gt and Lt compare decimal integers, and what is absent or none is neither greater nor less.
func TestRequestsMatchTheNodesOfTheirPods(t *testing.T) {
	matched, refused := 0, 0
	for seed := range uint64(4_000) {
		r := rand.New(rand.NewPCG(seed, 7))
		pod, node := randomAffinity(r), randomNode(r)
		want, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
		if err != nil {
			want = false // a term that cannot be read matches nothing
		}
		spec := Build(pod, Volumes{}, Options{Alternatives: true}).Spec
		if got := satisfies(spec, node.Labels); got != want {
			t.Fatalf("seed %d: %v for labels %v, kube-scheduler says %v\nPod %+v %+v\nrequest %+v %+v", seed, got, node.Labels, want,
				pod.Spec.NodeSelector, pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, spec.Requirements, spec.Alternatives)
		}
		if want {
			matched++
		} else {
			refused++
		}
	}
	if matched < 500 || refused < 500 {
		t.Errorf("%d matched and %d did not: the Pods say little", matched, refused)
	}
}

// A Pod with two terms for two zones asks for a machine in either.
func TestTwoTermsForTwoZones(t *testing.T) {
	spec := Build(pod(t, affinity(`[{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}, {key: tier, operator: Gt, values: ["3"]}]},
		{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [b]}]}]`)), Volumes{}, everything).Spec
	for labels, want := range map[[2]string]bool{{"a", "4"}: true, {"a", "3"}: false, {"b", "3"}: true, {"c", "4"}: false} {
		node := map[string]string{corev1.LabelTopologyZone: labels[0], "tier": labels[1], corev1.LabelInstanceTypeStable: "m"}
		if got := satisfies(spec, node); got != want {
			t.Errorf("zone %s, tier %s: %v", labels[0], labels[1], got)
		}
	}
	if len(spec.Alternatives) != 2 || len(spec.Requirements) != 0 {
		t.Errorf("requirements %v, alternatives %v", spec.Requirements, spec.Alternatives)
	}
}

var keys = []string{"a", "b", "c", corev1.LabelInstanceTypeStable}

func values(r *rand.Rand) []string { return []string{"x", "y", "3", "4", "007", "10", ""}[r.IntN(6):] }

func randomAffinity(r *rand.Rand) *corev1.Pod {
	var terms []corev1.NodeSelectorTerm
	for range 1 + r.IntN(3) {
		var term corev1.NodeSelectorTerm
		for range r.IntN(3) {
			e := corev1.NodeSelectorRequirement{
				Key: keys[r.IntN(3)],
				Operator: []corev1.NodeSelectorOperator{
					corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt,
				}[r.IntN(6)],
			}
			switch e.Operator {
			case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
				e.Values = values(r)
			case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
				e.Values = []string{strconv.Itoa(r.IntN(20) - 8)}
			}
			term.MatchExpressions = append(term.MatchExpressions, e)
		}
		terms = append(terms, term)
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}}}
	if r.IntN(4) == 0 {
		p.Spec.NodeSelector = map[string]string{keys[r.IntN(3)]: "x"}
	}
	return p
}

func randomNode(r *rand.Rand) *corev1.Node {
	labels := map[string]string{corev1.LabelInstanceTypeStable: "m7i.large"} // each machine has one
	for _, key := range keys[:3] {
		if r.IntN(4) > 0 {
			labels[key] = values(r)[0]
		}
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}}
}

// satisfies says whether a Node with these labels satisfies a request, by what a request means.
func satisfies(spec demandv1.CapacityRequestSpec, labels map[string]string) bool {
	all := func(rs []demandv1.Requirement) bool {
		return !slices.ContainsFunc(rs, func(r demandv1.Requirement) bool { return !holds(r, labels) })
	}
	return all(spec.Requirements) && (len(spec.Alternatives) == 0 ||
		slices.ContainsFunc(spec.Alternatives, func(a demandv1.Alternative) bool { return all(a.Requirements) }))
}

func holds(r demandv1.Requirement, labels map[string]string) bool {
	value, has := labels[r.Key]
	switch r.Operator {
	case demandv1.OperatorIn:
		return has && slices.Contains(r.Values, value)
	case demandv1.OperatorNotIn:
		return !has || !slices.Contains(r.Values, value)
	case demandv1.OperatorExists:
		return has
	case demandv1.OperatorDoesNotExist:
		return !has
	}
	is, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return false
	}
	than, err := strconv.ParseInt(r.Values[0], 10, 64)
	return err == nil && (r.Operator == demandv1.OperatorGt && is > than || r.Operator == demandv1.OperatorLt && is < than)
}
