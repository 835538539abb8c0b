package machinepool_test

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/testworld"
	"nstance.dev/operator/unsent"
)

// While a size is on its way to a shard, the pool's own or another's, sizes are written, and
// statuses and NstanceMachines are not.
func TestO4_SizesGoBeforeStatuses(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.settle()
		sizes := unsent.NewSizes(time.Now)
		w.pool.Unsent, w.shardGroups.Unsent = sizes, sizes
		w.scale(4)
		result, err := w.pass()
		if err != nil {
			t.Fatal(err)
		}
		if a, b := w.shardGroup("a").Spec.SizeOrZero(), w.shardGroup("b").Spec.SizeOrZero(); a != 2 || b != 2 {
			t.Errorf("sizes %d and %d, want 2 and 2", a, b)
		}
		if desired := *w.object().Status.DesiredReplicas; desired != 2 || result.RequeueAfter != unsent.AskAgain {
			t.Errorf("status of %d replicas is written before the shards know, and looked at after %v", desired, result.RequeueAfter)
		}
		w.partsPass() // the shards know
		w.Settle("a", "b")
		other := unsent.Pool(client.ObjectKey{Namespace: testworld.Namespace, Name: "jobs"})
		sizes.Add(other, 1)
		w.round()
		if n := len(w.infraMachines()); n != 2 {
			t.Errorf("%d NstanceMachines while another pool's size is on its way, want 2", n)
		}
		sizes.Done(other, 1)
		w.settle()
		if n, desired := len(w.infraMachines()), *w.object().Status.DesiredReplicas; n != 4 || desired != 4 {
			t.Errorf("%d NstanceMachines, status of %d replicas, want 4 and 4", n, desired)
		}
	})
}

// Where no size goes on, nobody waits for it: the write fails, or the pool is paused.
func TestO4_NobodyWaitsForASizeThatGoesNowhere(t *testing.T) {
	another := unsent.ShardGroup(client.ObjectKey{Namespace: testworld.Namespace, Name: "jobs--a"})
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.settle()
		w.pool.Unsent = unsent.NewSizes(time.Now)
		pool := unsent.Pool(key("web").NamespacedName)
		w.pool.Unsent.Add(pool, 0)
		p := &infrav1.NstanceMachinePool{}
		w.Change("web", p, func() { p.Annotations = map[string]string{"cluster.x-k8s.io/paused": "true"} })
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		if wait := w.pool.Unsent.Defer(another); wait != 0 {
			t.Errorf("others wait %v for a pool that is paused", wait)
		}
		w.pool.Unsent.Add(pool, 0)
		w.Change("web", p, func() { p.Annotations, p.Finalizers = nil, nil })
		w.Delete("web", &infrav1.NstanceMachinePool{})
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		if wait := w.pool.Unsent.Defer(another); wait != 0 {
			t.Errorf("others wait %v for a pool that is gone", wait)
		}
	})
}
