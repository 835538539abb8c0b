package machinepool_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/shards/shardtest"
)

// A pool of which a shard refuses the size because of the tenant's quota names quota and shard.
func TestO4_APoolAboveTheQuotaOfItsTenant(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.settle()
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{
			"UpsertGroup": shardtest.Refusal(codes.ResourceExhausted, "QUOTA_EXCEEDED", "tenant default would have 3 machines, 2 are allowed"),
		}})
		w.scale(6)
		w.settle()
		for _, kind := range []string{infrav1.ConditionShardGroupsReady, infrav1.ConditionReady} {
			c := meta.FindStatusCondition(w.object().Status.Conditions, kind)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != infrav1.ReasonQuotaExceeded ||
				!strings.HasPrefix(c.Message, "a: ") || !strings.HasSuffix(c.Message, "2 are allowed") {
				t.Errorf("%s: %+v", kind, c)
			}
		}
		w.Shard("a").Break(shardtest.Faults{})
		w.scale(2)
		w.settle()
		if c := meta.FindStatusCondition(w.object().Status.Conditions, infrav1.ConditionReady); c == nil || c.Status != metav1.ConditionTrue {
			t.Errorf("after the size was lowered: %+v", c)
		}
	})
}
