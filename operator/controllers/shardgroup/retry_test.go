package shardgroup_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/shards/shardtest"
)

// run lets the controller work for a while as its queue would have it: when its pause is
// over, when it failed, and every second besides, as news wake it.
func (w *world) run(for_ time.Duration) {
	w.t.Helper()
	for range int(for_ / time.Second) {
		_, _ = w.pass() // failures are what is looked for
		w.After(time.Second - time.Millisecond)
	}
}

// A server that fails is asked with growing pauses, whatever else wakes the object up.
func TestO5_AFailingServerIsAskedWithGrowingPauses(t *testing.T) {
	for _, code := range []codes.Code{codes.Internal, codes.Unavailable} {
		t.Run(code.String(), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.a.Break(shardtest.Faults{Refuse: map[string]error{"UpsertGroup": shardtest.Refusal(code, "", "object storage refuses writes")}})
				w.run(10 * time.Minute)
				if n := w.a.Count("UpsertGroup"); n < 5 || n > 14 {
					t.Errorf("%d calls in ten minutes", n)
				}
				w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = 3 })
				before := w.a.Count("UpsertGroup")
				w.run(time.Second)
				if n := w.a.Count("UpsertGroup"); n != before+1 {
					t.Errorf("%d calls for a new spec", n-before)
				}
				w.a.Break(shardtest.Faults{})
				w.run(6 * time.Minute)
				if o := w.object(); o.Status.ObservedGeneration != o.Generation || w.a.Group(tenant, "web").GetSize() != 3 {
					t.Errorf("the server works again, and does not know: %+v", o.Status)
				}
			})
		})
	}
}

// The same for the end of a group.
func TestO5_AFailingDeletionIsRepeatedWithGrowingPauses(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		w.a.Break(shardtest.Faults{Refuse: map[string]error{"DeleteGroup": shardtest.Refusal(codes.Internal, "", "no")}})
		w.Delete(name, &infrav1.NstanceShardGroup{})
		w.run(10 * time.Minute)
		if n := w.a.Count("DeleteGroup"); n < 5 || n > 14 {
			t.Errorf("%d calls in ten minutes", n)
		}
	})
}

// The template is added to the server's configuration after the pool was made: nothing
// changes in Kubernetes, and the group is made all the same.
func TestO5_ARefusedGroupIsTriedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.a.Break(shardtest.Faults{Refuse: map[string]error{"UpsertGroup": shardtest.Refusal(codes.InvalidArgument, "", "no template base")}})
		w.run(4 * time.Minute)
		if n := w.a.Count("UpsertGroup"); n != 1 {
			t.Fatalf("%d calls in four minutes", n)
		}
		valid := meta.FindStatusCondition(w.object().Status.Conditions, infrav1.ConditionConfigValid)
		if valid == nil || valid.Status != metav1.ConditionFalse || valid.Reason != infrav1.ReasonRejected {
			t.Fatalf("%+v", valid)
		}
		w.a.Break(shardtest.Faults{})
		w.run(6 * time.Minute)
		if w.a.Group(tenant, "web").GetSize() != 2 {
			t.Error("the group is not made after the server has learnt its template")
		}
	})
}

// The same where the server says that its configuration is another one: at once.
func TestO5_ARefusedGroupIsTriedWhenTheConfigurationChanges(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.a.SetConfigDigest("without the template")
		w.After(20 * time.Second) // a heartbeat
		w.a.Break(shardtest.Faults{Refuse: map[string]error{"UpsertGroup": shardtest.Refusal(codes.InvalidArgument, "INVALID_GROUP", "no template base")}})
		w.run(time.Minute)
		if n := w.a.Count("UpsertGroup"); n != 1 {
			t.Fatalf("%d calls in a minute", n)
		}
		w.a.Break(shardtest.Faults{})
		w.a.SetConfigDigest("with the template")
		w.run(20 * time.Second)
		if w.a.Group(tenant, "web").GetSize() != 2 {
			t.Error("the group is not made within a heartbeat after the server has learnt its template")
		}
		if n := w.a.Count("UpsertGroup"); n != 2 {
			t.Errorf("%d calls", n)
		}
	})
}

// The pool of a static group is deleted: what was set through the API goes, and the group is
// again what the server's configuration says. Its instances stay.
func TestO5_TheEndOfAStaticGroupTakesItsOverridesAlong(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustPass()
		w.a.SetStatic(tenant, "web", true)
		w.Settle("a")
		w.mustPass()
		w.Delete(name, &infrav1.NstanceShardGroup{})
		w.a.Break(shardtest.Faults{Refuse: map[string]error{"DeleteGroup": shardtest.Refusal(codes.Unavailable, "", "no")}})
		w.mustPass()
		if !w.Get(name, &infrav1.NstanceShardGroup{}) {
			t.Fatal("it is let go before the server has heard")
		}
		w.a.Break(shardtest.Faults{})
		w.run(5 * time.Second)
		if group := w.a.Group(tenant, "web"); group.GetDeleting() || group.GetDynamic() != nil || w.a.Count("DeleteGroup") != 2 {
			t.Errorf("%d calls, group %v", w.a.Count("DeleteGroup"), group)
		}
		if w.Get(name, &infrav1.NstanceShardGroup{}) || len(w.a.Instances(tenant, "web")) != 2 {
			t.Error("the object stays, or the instances go")
		}
	})
}
