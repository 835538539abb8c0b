package machinepool_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// Where Cluster API has a condition, a pool says it in the same words, and always: whoever
// waits for one with kubectl need not know that it may be missing.
func TestO4_ConditionsAreThoseOfClusterAPI(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		expect := func(when, condition string, status metav1.ConditionStatus, reason string) {
			t.Helper()
			c := meta.FindStatusCondition(w.object().Status.Conditions, condition)
			if c == nil || c.Status != status || c.Reason != reason {
				t.Errorf("%s: %s is %+v, want %s %s", when, condition, c, status, reason)
			}
		}
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		expect("nothing runs", clusterv1.ScalingUpCondition, metav1.ConditionTrue, clusterv1.ScalingUpReason)
		expect("nothing runs", clusterv1.ScalingDownCondition, metav1.ConditionFalse, clusterv1.NotScalingDownReason)
		w.settle()
		expect("all run", clusterv1.ScalingUpCondition, metav1.ConditionFalse, clusterv1.NotScalingUpReason)
		expect("all run", clusterv1.DeletingCondition, metav1.ConditionFalse, clusterv1.NotDeletingReason)
		expect("all run", clusterv1.PausedCondition, metav1.ConditionFalse, clusterv1.NotPausedReason)
		expect("all run", infrav1.ConditionScaling, metav1.ConditionFalse, infrav1.ReasonNotScaling)
		for _, c := range w.object().Status.Conditions {
			if c.Reason == "None" {
				t.Errorf("%s has no reason", c.Type)
			}
		}
		w.scale(2)
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		expect("two are to go", clusterv1.ScalingDownCondition, metav1.ConditionTrue, clusterv1.ScalingDownReason)
		expect("two are to go", clusterv1.ScalingUpCondition, metav1.ConditionFalse, clusterv1.NotScalingUpReason)
	})
}
