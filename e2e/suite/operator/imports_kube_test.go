//go:build kube

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// O3, O4: uneven groups of the servers become a pool as they are, and making it moves no
// instance. After that one machine moves, so that the parts are equal: the new one is there
// before the old one goes.
func TestO3_O4_ImportMovesNothing(t *testing.T) {
	s := startKind(t, gated, kube.ReadAudit)
	kube.Await(t, "the group is a pool in equal parts", func(ctx context.Context) error {
		if sizes := s.sizes(t, "web"); !cmp.Equal(sizes, map[string]int64{"a": 2, "b": 2}) {
			return fmt.Errorf("sizes are %v", sizes)
		}
		return s.settled("web", 4)(ctx)
	})
	pool, err := s.get(t.Context(), infrav1.KindMachinePool, "web")
	if err != nil {
		t.Fatal(err)
	}
	if from := pool.GetAnnotations()[infrav1.AnnotationImportedFrom]; from != "a=3,b=1" {
		t.Errorf("it was imported from %s, want a=3,b=1", from)
	}

	now := s.names(t, "web")
	gone := slices.DeleteFunc(slices.Clone(s.imported), func(name string) bool { return slices.Contains(now, name) })
	added := slices.DeleteFunc(slices.Clone(now), func(name string) bool { return slices.Contains(s.imported, name) })
	if len(gone) != 1 || len(added) != 1 {
		t.Fatalf("the servers had %v, and the pool has %v: one moved", s.imported, now)
	}
	created := s.first(t, "create", "nodes", added[0])
	deleted := s.first(t, "delete", "nodes", gone[0])
	if created.Time.IsZero() || !created.Time.Before(deleted.Time) {
		t.Errorf("Node %s is there since %v, and Node %s was deleted at %v", added[0], created.Time, gone[0], deleted.Time)
	}
}

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
