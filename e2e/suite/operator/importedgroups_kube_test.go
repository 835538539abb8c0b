//go:build kube && operator

package operator_test

import (
	"context"
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
