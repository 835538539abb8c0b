//go:build kube

package operator_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// O6: a pool grows from nothing to five Machines with Nodes, in equal parts, and a Machine
// that somebody deletes is replaced.
func TestO6_ScaledUpAndAMachineReplaced(t *testing.T) {
	s := startSystem(t)
	s.pool(t, "replaced", "shards: [a, b, c]", 5)
	want := map[string]int64{"a": 2, "b": 2, "c": 1}
	if diff := cmp.Diff(want, s.sizes(t, "replaced")); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}

	deleted := s.names(t, "replaced")[0]
	if _, err := s.Kubectl(t.Context(), "delete", "machine", deleted, "-n", s.namespace, "--wait=false"); err != nil {
		t.Fatal(err)
	}
	kube.Await(t, "it is gone", s.gone("Machine", deleted))
	kube.Await(t, "another one runs instead", s.settled("replaced", 5))
	if diff := cmp.Diff(want, s.sizes(t, "replaced")); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
	s.scale(t, "replaced", 0)
	kube.Await(t, "none is left", s.settled("replaced", 0))
}

// O6: whoever names a machine and takes one off the size gets rid of that machine and of no
// other, also if it is the last one that the plan would take, and if the operator's process
// ends in between.
func TestO6_TheNamedMachineGoesAndNoOther(t *testing.T) {
	s := startSystem(t, kube.ReadAudit)
	s.pool(t, "named", "shards: [a, b, c], rebalance: Never", 6)
	began := time.Now()
	left := s.names(t, "named")
	for round, restart := range []bool{false, true, false} {
		named := left[round%len(left)] // names are in order of time: not always the oldest
		left = slices.DeleteFunc(left, func(name string) bool { return name == named })
		s.merge(t, "Machine", named, fmt.Sprintf(`{"metadata":{"annotations":{%q:"yes"}}}`, clusterv1.DeleteMachineAnnotation))
		s.scale(t, "named", len(left))
		if restart {
			s.crash(t)
			s.start(t)
		}
		kube.Await(t, "it is gone", s.gone("Machine", named))
		kube.Await(t, "the others run", s.settled("named", len(left)))
		if diff := cmp.Diff(left, s.names(t, "named")); diff != "" {
			t.Fatalf("Machines (-want +got):\n%s", diff)
		}
	}
	if got := s.deletedNodes(t, began); len(got) != 3 {
		t.Errorf("three were named, and the Nodes %v deleted", got)
	}
}

// O7: a shard that is away, and comes back without its memory, costs no Node.
func TestO7_AShardThatIsAwayCostsNoNode(t *testing.T) {
	s := startSystem(t, kube.ReadAudit)
	s.pool(t, "away", "shards: [a, b, c]", 4)
	began, before := time.Now(), s.providerIDs(t, "away")

	s.shards.Kill("b")
	kube.Await(t, "the shard is missed", s.reachable("away", "b", "False"))
	if diff := cmp.Diff(before, s.providerIDs(t, "away")); diff != "" {
		t.Errorf("provider ids while the shard is away (-before +then):\n%s", diff)
	}
	s.shards.StartAnew("b")
	kube.Await(t, "the shard is back", s.reachable("away", "b", "True"))
	kube.Await(t, "all is as it was", s.settled("away", 4))
	if diff := cmp.Diff(before, s.providerIDs(t, "away")); diff != "" {
		t.Errorf("provider ids after the shard is back (-before +then):\n%s", diff)
	}
	if gone := s.deletedNodes(t, began); len(gone) > 0 {
		t.Errorf("Nodes were deleted: %v", gone)
	}
	s.scale(t, "away", 0) // in its first minute a leader ends no machines of deleted groups
	kube.Await(t, "none is left", s.settled("away", 0))
}

// O5: a part that a person deletes is guarded; with permission that shard is emptied, and
// the others get what it had.
func TestO5_APartIsDeletedWithPermissionOnly(t *testing.T) {
	s := startSystem(t)
	s.pool(t, "parted", "shards: [a, b]", 2)
	if _, err := s.Kubectl(t.Context(), "delete", "nstanceshardgroup", "parted--b", "-n", s.namespace, "--wait=false"); err == nil {
		t.Fatal("a part was deleted without permission")
	}
	s.merge(t, infrav1.KindShardGroup, "parted--b", fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, infrav1.AnnotationAllowShardGroupDelete))
	if _, err := s.Kubectl(t.Context(), "delete", "nstanceshardgroup", "parted--b", "-n", s.namespace, "--wait=false"); err != nil {
		t.Fatal(err)
	}
	kube.Await(t, "the other shard has them all", func(ctx context.Context) error {
		if sizes := s.sizes(t, "parted"); !cmp.Equal(sizes, map[string]int64{"a": 2}) {
			return fmt.Errorf("sizes are %v", sizes)
		}
		return s.settled("parted", 2)(ctx)
	})
}
