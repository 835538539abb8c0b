package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
)

// TestWhatTheOperatorsConditionsAreLookedAtFor: not for the shard table, which changes with every group.
func TestWhatTheOperatorsConditionsAreLookedAtFor(t *testing.T) {
	cluster := func(change func(*infrav1.NstanceCluster)) *infrav1.NstanceCluster {
		c := &infrav1.NstanceCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Generation: 1}}
		c.Status.Conditions = []metav1.Condition{
			{Type: infrav1.ConditionOperatorRegistered, Status: metav1.ConditionTrue}, {Type: infrav1.ConditionWorkloadReachable, Status: metav1.ConditionTrue},
		}
		change(c)
		return c
	}
	before := cluster(func(*infrav1.NstanceCluster) {})
	for name, test := range map[string]struct {
		change func(*infrav1.NstanceCluster)
		want   bool
	}{
		"the shard table": {func(c *infrav1.NstanceCluster) { c.Status.Shards = []infrav1.ClusterShard{{Name: "a"}} }, false},
		"a condition of another": {func(c *infrav1.NstanceCluster) {
			c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: "Other"})
		}, false},
		"a condition of ours, changed": {func(c *infrav1.NstanceCluster) { c.Status.Conditions[0].Status = metav1.ConditionFalse }, true},
		"a condition of ours, removed": {func(c *infrav1.NstanceCluster) { c.Status.Conditions = c.Status.Conditions[:1] }, true},
		"the spec":                     {func(c *infrav1.NstanceCluster) { c.Generation = 2 }, true},
	} {
		got := capi.ChangedIn(operatorConditions).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: cluster(test.change)})
		if got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
