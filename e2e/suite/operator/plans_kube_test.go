//go:build kube && operator

package operator_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// O4: parts are equal, the rest goes to the shards that are listed first. While a shard is
// silent the others take what is added to the pool, and a pool that shrinks loses nothing
// on the silent one, nor more than they have too much on the others; that the rest has to
// wait is said. When the shard answers again, the parts are what they are to be.
func TestO4_ASilentShardLosesNothingThatNobodyNamed(t *testing.T) {
	s := startSystem(t, kube.ReadAudit)
	s.pool(t, "planned", "shards: [a, b, c], rebalance: Never", 7)
	s.parts(t, "planned", map[string]int64{"a": 3, "b": 2, "c": 2})
	began := time.Now()

	s.shards.CutOff("c")
	kube.Await(t, "the shard is missed", s.reachable("planned", "c", "False"))
	s.scale(t, "planned", 9)
	kube.Await(t, "nine Machines run", s.settled("planned", 9))
	s.parts(t, "planned", map[string]int64{"a": 4, "b": 3, "c": 2})
	s.scale(t, "planned", 3)
	kube.Await(t, "two are left where that can be known", s.settled("planned", 4))
	s.parts(t, "planned", map[string]int64{"a": 1, "b": 1, "c": 2})
	kube.Await(t, "it is said that one has to wait", func(ctx context.Context) error {
		pool, err := s.get(ctx, infrav1.KindMachinePool, "planned")
		if err == nil && conditionOf(pool, "Scaling") != "True" {
			err = fmt.Errorf("Scaling is %q", conditionOf(pool, "Scaling"))
		}
		return err
	})
	for _, name := range s.deletedNodes(t, began) {
		if s.ground.shard(name) == "c" {
			t.Errorf("Node %s of the silent shard was deleted", name)
		}
	}

	s.shards.Mend("c")
	kube.Await(t, "the rest goes", s.settled("planned", 3))
	s.parts(t, "planned", map[string]int64{"a": 1, "b": 1, "c": 1})
}

// parts checks the sizes of the parts of a pool.
func (s *system) parts(t *testing.T, pool string, want map[string]int64) {
	t.Helper()
	if diff := cmp.Diff(want, s.sizes(t, pool)); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
}
