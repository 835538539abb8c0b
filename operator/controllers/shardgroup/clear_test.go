package shardgroup_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
)

// What the spec says no more, the server says no more: the group falls back to its template.
func TestO14_TypeAndSubnetsCanBeTakenBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.InstanceType, o.Spec.Subnets = "large", "others" })
		w.mustPass()
		if g := w.a.Group(tenant, "web"); g.GetInstanceType() != "large" || g.GetSubnetPool() != "others" {
			t.Fatalf("%v", g)
		}
		// An operator of before did not note what it had told.
		o := w.object()
		o.Status.Sent = nil
		if err := w.Client.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		w.mustPass()
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.InstanceType, o.Spec.Subnets = "", "" })
		w.mustPass()
		if g := w.a.Group(tenant, "web"); g.GetInstanceType() != "small" || g.GetSubnetPool() != "workers" {
			t.Errorf("the group keeps what the spec does not say any more: %v", g)
		}
		n := w.a.Count("UpsertGroup")
		w.run(time.Minute)
		if got := w.a.Count("UpsertGroup"); got != n {
			t.Errorf("%d calls more", got-n)
		}
	})
}

// A server that cannot do that keeps the fields; it is said, and made up for when the server
// has been upgraded.
func TestO14_AServerThatCannotTakeBackIsNamed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		old := shardtest.Faults{Lacks: map[string]bool{shards.ClearFields: true}}
		w.a.Break(old)
		w.a.Restart()
		w.After(2 * time.Minute)
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.InstanceType = "large" })
		w.mustPass()
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.InstanceType = "" })
		w.mustPass()
		w.mustPass()
		valid := meta.FindStatusCondition(w.object().Status.Conditions, infrav1.ConditionConfigValid)
		if g := w.a.Group(tenant, "web"); g.GetInstanceType() != "large" || valid.Reason != infrav1.ReasonFieldsKept {
			t.Fatalf("type %s, %+v", g.GetInstanceType(), valid)
		}
		w.a.Break(shardtest.Faults{})
		w.a.Restart()
		w.After(2 * time.Minute)
		w.run(5 * time.Second)
		valid = meta.FindStatusCondition(w.object().Status.Conditions, infrav1.ConditionConfigValid)
		if g := w.a.Group(tenant, "web"); g.GetInstanceType() != "small" || valid.Reason != infrav1.ReasonAccepted {
			t.Errorf("type %s, %+v", g.GetInstanceType(), valid)
		}
	})
}
