//go:build kube && operator

package operator_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/e2e/env/kube"
)

// O6, O7: a pool grows to twenty and goes back to none, and each time one shard's server
// is killed on the way and another one out of reach. Nothing is lost, and nothing is left.
func TestO6_O7_TwentyAndNoneThroughOutages(t *testing.T) {
	s := startLong(t, kube.ReadAudit)
	s.pool(t, "story", "shards: [a, b, c], rebalance: Never", 0)
	began := time.Now()

	s.scale(t, "story", 20)
	kube.Await(t, "the first Machines are there", func(ctx context.Context) error { return s.atLeast(ctx, "story", 3) })
	s.shards.Kill("b")
	s.shards.CutOff("c")
	kube.Await(t, "one shard is missed", s.reachable("story", "b", "False"))
	kube.Await(t, "and the other", s.reachable("story", "c", "False"))
	s.heal(t)
	kube.Await(t, "twenty Machines run", s.settled("story", 20))
	if gone := s.deletedNodes(t, began); len(gone) > 0 {
		t.Errorf("while it grew, Nodes were deleted: %v", gone)
	}

	all := s.names(t, "story")
	s.shards.Kill("a")
	s.shards.CutOff("b")
	s.scale(t, "story", 0)
	kube.Await(t, "one shard is missed", s.reachable("story", "a", "False"))
	kube.Await(t, "and the other", s.reachable("story", "b", "False"))
	s.heal(t)
	kube.Await(t, "none is left", s.settled("story", 0))
	gone := s.deletedNodes(t, began)
	slices.Sort(gone)
	if diff := cmp.Diff(all, gone); diff != "" {
		t.Errorf("Nodes (-that had to go +that were deleted):\n%s", diff)
	}
}

// atLeast returns nil once a pool has that many Machines.
func (i *installation) atLeast(ctx context.Context, pool string, size int) error {
	machines, err := i.machines(ctx, pool)
	if err == nil && len(machines) < size {
		err = fmt.Errorf("%d Machines, want %d", len(machines), size)
	}
	return err
}
