//go:build kube

package operator_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/kube"
)

// O6, O3: a pool with deletionPolicy Orphan leaves its machines where they are: Cluster API
// deletes its objects and no Node, the groups stay on the servers at their sizes, and
// nobody makes a pool of them again.
func TestO3_O6_AnOrphanedPoolLeavesItsMachines(t *testing.T) {
	s := startSystem(t, kube.ReadAudit)
	s.pool(t, "left", "shards: [a, b], deletionPolicy: Orphan", 3)
	began, names, groups := time.Now(), s.names(t, "left"), s.groups(t, "left")
	t.Cleanup(func() {
		for _, shard := range []string{"a", "b"} {
			s.shards.DeleteGroup(shard, "left")
		}
		for _, name := range names { // else they go while the next test counts those that do
			if err := s.client.CoreV1().Nodes().Delete(shared.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	s.remove(t, "left")
	if diff := cmp.Diff(groups, s.groups(t, "left")); diff != "" {
		t.Errorf("groups of the servers (-before +after):\n%s", diff)
	}
	if gone := s.deletedNodes(t, began); len(gone) > 0 {
		t.Errorf("Nodes were deleted: %v", gone)
	}
	for _, name := range names {
		if status := s.instance(t, name); status != "running" {
			t.Errorf("instance %s is %q", name, status)
		}
	}
	// A group that comes after them is imported, and these are not.
	s.shards.UpsertGroup("c", "other", 1)
	t.Cleanup(func() { s.remove(t, "other") })
	kube.Await(t, "another group becomes a pool", s.settled("other", 1))
	if err := s.gone("MachinePool", "left")(t.Context()); err != nil {
		t.Error(err)
	}
}

// instance returns what the servers say of an instance, "" if they know none.
func (s *system) instance(t *testing.T, id string) string {
	t.Helper()
	status := ""
	kube.Await(t, "the servers say what is with an instance", func(ctx context.Context) error {
		for _, shard := range s.shards.Shards() {
			all, complete, err := s.shards.Instances(ctx, shard)
			if err != nil || !complete {
				return fmt.Errorf("shard %s: complete: %t: %w", shard, complete, err)
			}
			for _, in := range all {
				if in.GetInstanceId() == id {
					status = in.GetStatus()
				}
			}
		}
		return nil
	})
	return status
}
