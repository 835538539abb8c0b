package shardgroup_test

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/testworld"
	"nstance.dev/operator/unsent"
)

// jobs is another group, whose size is on its way to its shard.
var jobs = unsent.ShardGroup(client.ObjectKey{Namespace: testworld.Namespace, Name: "jobs--a"})

// While another group's size is on its way the status waits, and the shard is told its size all
// the same: once. What the shard said stands in the status when it is written.
func TestO5_AStatusWaitsForTheSizesOfOthers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.r.Unsent = unsent.NewSizes(time.Now)
		w.r.Unsent.Add(jobs, 1)
		for range 3 {
			if again := w.mustPass().RequeueAfter; again != unsent.AskAgain {
				t.Errorf("looked at again after %v, want %v", again, unsent.AskAgain)
			}
			w.After(unsent.AskAgain)
		}
		w.expectSize(2)
		if status := w.object().Status; status.ObservedGeneration != 0 {
			t.Errorf("status %+v is written", status)
		}

		w.r.Unsent.Done(jobs, 1)
		w.mustPass()
		if observed := w.object().Status.ObservedGeneration; observed != 1 {
			t.Errorf("generation %d has been sent by the status, want 1", observed)
		}
		w.Settle("a")
		w.mustPass()
		w.expectReady(metav1.ConditionTrue, infrav1.ReasonReady)
		if n := w.a.Count("UpsertGroup"); n != 1 {
			t.Errorf("%d upserts of one spec, want 1", n)
		}
	})
}

// Nothing else waits with a status: not the next size, and not the end of the group; nor do they wait
// for a status that the API server refuses.
func TestO5_NothingElseWaitsWithAStatus(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.r.Unsent = unsent.NewSizes(time.Now)
		w.r.Unsent.Add(jobs, 1)
		w.mustPass()
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](4) })
		w.mustPass()
		w.expectSize(4)

		w.r.Unsent.Done(jobs, 1)
		w.r.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
				return errors.New("refused")
			},
		})
		if _, err := w.pass(); err == nil {
			t.Error("the status is said to be written")
		}
		w.edit(func(o *infrav1.NstanceShardGroup) { o.Spec.Size = ptr.To[int32](5) })
		_, _ = w.pass() // its status is refused too
		w.expectSize(5)
		w.Delete(name, &infrav1.NstanceShardGroup{})
		_, _ = w.pass()
		if n := w.a.Count("DeleteGroup"); n != 1 {
			t.Errorf("the shard is told %d times that the group ends, want once", n)
		}
	})
}

// An object that was made anew under the same name does not get the status of the one before.
func TestO5_AStatusThatWaitsIsOfOneObject(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.r.Unsent = unsent.NewSizes(time.Now)
		w.r.Unsent.Add(jobs, 1)
		w.mustPass()
		again := w.object()
		again.Finalizers = nil
		if err := w.Client.Update(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		w.Delete(name, &infrav1.NstanceShardGroup{})
		w.Create(&infrav1.NstanceShardGroup{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: "another", Generation: 1, Labels: again.Labels, OwnerReferences: again.OwnerReferences},
			Spec:       again.Spec,
		})
		w.r.Unsent.Done(jobs, 1)
		w.r.Inventory.Configure(nil) // nothing is known of the shard, and nothing is sent
		w.mustPass()
		if observed := w.object().Status.ObservedGeneration; observed != 0 {
			t.Errorf("the status says that generation %d was sent, and it never was", observed)
		}
	})
}
