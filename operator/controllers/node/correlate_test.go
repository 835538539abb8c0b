package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/status"
)

const (
	id  = "wrk01arz3ndektsv4rrffq69g5fav"
	uri = "nstance://a/" + id
)

func TestO13_Correlate(t *testing.T) {
	machine := func() *infrav1.NstanceMachine {
		return &infrav1.NstanceMachine{Spec: infrav1.NstanceMachineSpec{
			InstanceID: id, MachineSettings: infrav1.MachineSettings{GroupRef: infrav1.GroupReference{Name: "web"}, Shard: "a"},
		}}
	}
	forPod := func() *infrav1.NstanceMachine {
		m := machine()
		m.Labels = map[string]string{infrav1.OnDemandClaim: "c1"}
		return m
	}
	node := func(changes ...func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}, Spec: corev1.NodeSpec{ProviderID: uri}}
		for _, change := range changes {
			change(n)
		}
		return n
	}
	labelled := func(n *corev1.Node) {
		n.Labels = map[string]string{infrav1.LabelInstanceID: id, infrav1.LabelGroup: "web", infrav1.LabelShard: "a"}
		n.Annotations = map[string]string{infrav1.AnnotationCluster: "ns/c"}
	}
	nameless := func(n *corev1.Node) { n.Spec.ProviderID = "" }
	dedicated := func(n *corev1.Node) {
		labelled(n)
		n.Labels[infrav1.OnDemandClaim] = "c1"
		n.Annotations[infrav1.AnnotationScaleDownDisabled] = "true"
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: infrav1.TaintOnDemandClaim, Value: "c1", Effect: corev1.TaintEffectNoSchedule})
	}
	other := corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoExecute}
	tainted := func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{other} }
	found := func(n *corev1.Node) nodes.Located {
		return nodes.Located{Found: nodes.Found{Node: "n", How: nodes.ByProviderID}, Object: n}
	}
	ref := &infrav1.NodeReference{Name: "n", UID: "u"}
	correlated := status.True(infrav1.ConditionNodeCorrelated, infrav1.ReasonCorrelated, "node n, by its provider id")
	owner := func(node string) *clusterv1.Machine {
		return &clusterv1.Machine{Status: clusterv1.MachineStatus{NodeRef: clusterv1.MachineNodeReference{Name: node}}}
	}
	leaving := func() *clusterv1.Machine {
		m := owner("")
		now := metav1.Now()
		m.DeletionTimestamp = &now
		return m
	}
	said := func(n *corev1.Node) nodes.Located {
		return nodes.Located{Found: nodes.Found{Node: "n", How: nodes.ByLabel, SetProviderID: true}, Object: n}
	}
	bySelf := status.True(infrav1.ConditionNodeCorrelated, infrav1.ReasonCorrelated, "node n, by its instance label and address")
	inPool := func(learnt infrav1.ResourceList) *infrav1.NstanceMachine {
		m := machine()
		m.Spec.Mode, m.Status.Allocatable = infrav1.MachineManaged, learnt
		return m
	}
	leaves := func(status corev1.ConditionStatus, cpu string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
			n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse(cpu), "hugepages-2Mi": resource.MustParse("0"), "nvidia.com/gpu": resource.MustParse("0")}
		}
	}
	cpu := func(n string) infrav1.ResourceList { return infrav1.ResourceList{"cpu": resource.MustParse(n)} }
	for _, tt := range []struct {
		name string
		o    Observation
		want Decision
	}{
		{
			"what a pool's node leaves for pods", Observation{Machine: inPool(nil), Found: found(node(labelled, leaves(corev1.ConditionTrue, "3900m")))},
			Decision{NodeRef: ref, Allocatable: cpu("3900m"), Condition: correlated},
		},
		{
			"which is what it was when it was ready", Observation{Machine: inPool(cpu("3900m")), Found: found(node(labelled, leaves(corev1.ConditionUnknown, "1")))},
			Decision{NodeRef: ref, Allocatable: cpu("3900m"), Condition: correlated},
		},
		{"nobody asks that of another node", Observation{Machine: machine(), Found: found(node(labelled, leaves(corev1.ConditionTrue, "4")))}, Decision{NodeRef: ref, Condition: correlated}},
		{
			"no node", Observation{Machine: machine()},
			Decision{Condition: status.False(infrav1.ConditionNodeCorrelated, infrav1.ReasonWaitingForNode, "no node is known to be this instance's")},
		},
		{"a new node", Observation{Machine: machine(), Found: found(node())}, Decision{NodeRef: ref, Condition: correlated, Node: node(labelled)}},
		{"a known node", Observation{Machine: machine(), Found: found(node(labelled))}, Decision{NodeRef: ref, Condition: correlated}},
		{
			"its Machine hears of it", Observation{Machine: machine(), Owner: owner(""), Found: found(node(labelled)), ProviderURI: uri},
			Decision{NodeRef: ref, Condition: correlated, Owner: owner("n")},
		},
		{
			"a Machine that is being deleted hears of it no more: Cluster API has not drained the Node", Observation{Machine: machine(), Owner: leaving(), Found: found(node(labelled)), ProviderURI: uri},
			Decision{NodeRef: ref, Condition: correlated},
		},
		{
			"what its Machine knows stays", Observation{Machine: machine(), Owner: owner("x"), Found: found(node(labelled)), ProviderURI: uri},
			Decision{NodeRef: ref, Condition: correlated},
		},
		{
			"a provider id is set once", Observation{Machine: machine(), Owner: owner(""), Found: said(node(labelled, nameless)), ProviderURI: uri, SetProviderID: true},
			Decision{NodeRef: ref, Condition: bySelf, Node: node(labelled), Owner: owner("n")},
		},
		{
			"unless somebody else does that", Observation{Machine: machine(), Owner: owner(""), Found: said(node(labelled, nameless)), ProviderURI: uri},
			Decision{NodeRef: ref, Condition: bySelf},
		},
		{
			"a node of another machine", Observation{Machine: machine(), Found: nodes.Located{Found: nodes.Found{Mismatch: true, Claims: "n", Why: "it lies"}, Object: node()}},
			Decision{Condition: status.False(infrav1.ConditionNodeCorrelated, infrav1.ReasonMismatch, "it lies"), Mismatch: "it lies"},
		},
		{
			"more than one", Observation{Machine: machine(), Found: nodes.Located{Found: nodes.Found{Why: "two"}}},
			Decision{Condition: status.False(infrav1.ConditionNodeCorrelated, infrav1.ReasonWaitingForNode, "two")},
		},
		{
			"a node that is gone is remembered", Observation{Machine: func() *infrav1.NstanceMachine { m := machine(); m.Status.NodeRef = ref; return m }()},
			Decision{NodeRef: ref, Condition: status.False(infrav1.ConditionNodeCorrelated, infrav1.ReasonWaitingForNode, "no node is known to be this instance's")},
		},
		{
			"a node for one pod", Observation{Machine: forPod(), Found: found(node(tainted))},
			Decision{NodeRef: ref, Condition: correlated, Node: node(tainted, dedicated)},
		},
		{"which it is already", Observation{Machine: forPod(), Found: found(node(tainted, dedicated))}, Decision{NodeRef: ref, Condition: correlated}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Home = "ns/c"
			if diff := cmp.Diff(tt.want, Correlate(tt.o)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
