//go:build kube

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// O3: as long as one shard is silent, no group becomes a pool, also if it is on the others.
func TestO3_OneSilentShardHoldsTheImportUp(t *testing.T) {
	s := startSystem(t)
	s.shards.CutOff("c")
	s.crash(t)
	s.start(t)
	s.shards.UpsertGroup("a", "found", 1)
	t.Cleanup(func() { s.remove(t, "found") })
	kube.Await(t, "the import waits", func(ctx context.Context) error {
		cluster, err := s.get(ctx, infrav1.KindCluster, s.cluster())
		if err != nil {
			return err
		}
		if status := conditionOf(cluster, "ImportComplete"); status != "False" {
			return fmt.Errorf("ImportComplete is %q", status)
		}
		return nil
	})
	kube.Await(t, "the operator has heard of the other shards", s.heard("a"))
	if _, err := s.get(t.Context(), infrav1.KindMachinePool, "found"); err == nil {
		t.Error("a group became a pool while a shard was silent")
	}
	s.shards.Mend("c")
	kube.Await(t, "it becomes a pool as soon as the shard answers", s.settled("found", 1))
	if sizes := s.sizes(t, "found"); !cmp.Equal(sizes, map[string]int64{"a": 1}) {
		t.Errorf("sizes are %v", sizes)
	}
}

// heard returns nil once the operator is connected to a shard.
func (i *installation) heard(shard string) func(context.Context) error {
	return func(ctx context.Context) error {
		var cluster infrav1.NstanceCluster
		if err := i.read(ctx, infrav1.KindCluster, i.cluster(), &cluster); err != nil {
			return err
		}
		for _, s := range cluster.Status.Shards {
			if s.Name == shard && s.State == infrav1.ShardReady {
				return nil
			}
		}
		return errors.New("it is not")
	}
}
