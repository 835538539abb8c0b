//go:build kube

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/e2e/env/kube"
)

// O6, O3: a pool with deletionPolicy Orphan leaves its machines where they are: Cluster API
// deletes its objects and no Node, the groups stay on the servers at their sizes, and
// nobody makes a pool of them again. O11: when the servers end these machines, the operator
// deletes their Nodes, as no Machine is left with which Cluster API would.
func TestO3_O6_AnOrphanedPoolLeavesItsMachines(t *testing.T) {
	s := startSystem(t, kube.ReadAudit)
	s.pool(t, "left", "shards: [a, b], deletionPolicy: Orphan", 3)
	began, names, groups := time.Now(), s.names(t, "left"), s.groups(t, "left")
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

	s.ground.powerOff(t, func(name string) bool { return slices.Contains(names, name) })
	for _, name := range names {
		s.silence(t, name)
	}
	for _, shard := range []string{"a", "b"} {
		s.shards.DeleteGroup(shard, "left")
	}
	for _, name := range names {
		kube.Await(t, "Node "+name+" is deleted", func(context.Context) error {
			switch by := s.first(t, "delete", "nodes", name).User; by {
			case "":
				return errors.New("nobody has deleted it")
			case s.user():
				return nil
			default:
				return fmt.Errorf("deleted by %s, want the operator", by)
			}
		})
	}
}

// silence has a Node say what the node lifecycle controller writes when its machine has been
// silent for long, so that no test waits for that.
func (s *system) silence(t *testing.T, node string) {
	t.Helper()
	unknown := `{"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}`
	if _, err := s.client.CoreV1().Nodes().PatchStatus(t.Context(), node, []byte(unknown)); err != nil {
		t.Fatal(err)
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
