package opsim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// TestL1_OnlyANodeThatNobodyHasSeenMayStay: one that works, or that the operator has marked
// as its own, has to go with its instance.
func TestL1_OnlyANodeThatNobodyHasSeenMayStay(t *testing.T) {
	node := func(ready corev1.ConditionStatus, annotation string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{infrav1.LabelInstanceID: "vmx"}, Annotations: map[string]string{}, // the kubelet's label
		}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		if annotation != "" {
			n.Annotations[infrav1.AnnotationCluster] = annotation
		}
		return n
	}
	for _, c := range []struct {
		name string
		node *corev1.Node
		want bool
	}{
		{"not ready and without a mark", node(corev1.ConditionFalse, ""), true},
		{"not heard of and without a mark", node(corev1.ConditionUnknown, ""), true},
		{"ready", node(corev1.ConditionTrue, ""), false},
		{"of the operator's cluster", node(corev1.ConditionUnknown, "nstance/sim"), false},
	} {
		if got := unseen(c.node); got != c.want {
			t.Errorf("a Node that is %s may stay: %t, want %t", c.name, got, c.want)
		}
	}
}
