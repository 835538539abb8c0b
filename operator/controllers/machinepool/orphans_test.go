package machinepool_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"nstance.dev/operator/shards/shardtest"
)

// Cluster API makes a Machine for an NstanceMachine that it has seen. If that has ended with
// its instance by then, nothing takes the Machine along any more but the pool.
func TestO11_AMachineThatNothingStandsBehindGoes(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.settle()
		id := w.Shard("a").Instances(tenant, "web")[0].GetInstanceId()
		w.Shard("a").Condemn(id, "unhealthy", 0)
		w.drop(id) // as the controller of machines does it
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		machine := &clusterv1.Machine{}
		if !w.Get(id, machine) || !machine.DeletionTimestamp.IsZero() {
			t.Fatal("a Machine whose instance is still there was deleted")
		}
		w.drop(id) // that one was made again
		w.Settle("a")
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		if !w.Get(id, machine) || machine.DeletionTimestamp.IsZero() {
			t.Fatal("a Machine whose instance has ended stays")
		}
		for _, key := range []string{clusterv1.ExcludeNodeDrainingAnnotation, clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation} {
			if !metav1.HasAnnotation(machine.ObjectMeta, key) {
				t.Errorf("its end waits for Pods or volumes of a machine that is gone: no annotation %s", key)
			}
		}
	})
}

func TestO7_NothingIsKnownToStandBehindAMachineOfAShardThatIsAway(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.settle()
		id := w.Shard("a").Instances(tenant, "web")[0].GetInstanceId()
		w.drop(id)
		nobody := shardtest.Refusal(codes.Unavailable, "", "nobody there")
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"": nobody}})
		w.Shard("a").EndStreams()
		w.After(2 * time.Minute)
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		machine := &clusterv1.Machine{}
		if !w.Get(id, machine) || !machine.DeletionTimestamp.IsZero() {
			t.Fatal("the Machine of an instance that may be there was deleted")
		}
	})
}
