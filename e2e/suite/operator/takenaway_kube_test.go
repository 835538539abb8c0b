//go:build kube && operator

package operator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/e2e/env/kube"
)

// O16, F37: what stands below, in a cluster that does not outlive it.
func TestO16_F37_EverythingIsTakenAway(t *testing.T) {
	s := startAlone(t, kube.BeAlone, kube.StopComponents, kube.ReadAudit)
	t.Run("the API server", s.withoutAPIServer)
	t.Run("the namespace", s.withoutNamespace)
}

// While there is no API server the operator's process ends, for it cannot keep its Lease, and
// machines go on. When there is one again, and an operator, all is as it was.
func (s *system) withoutAPIServer(t *testing.T) {
	s.pool(t, "headless", "shards: [a, b, c]", 3)
	began, before, leader := time.Now(), s.names(t, "headless"), s.leader(t)
	lives, err := s.operator.Lives(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(kube.APIServer); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Cluster.Start(shared.Context(), kube.APIServer); err != nil {
			t.Error(err)
		}
	})
	kube.Await(t, "the operator gives up", func(ctx context.Context) error {
		now, err := s.operator.Lives(ctx)
		if err == nil && now == lives {
			err = errors.New("it runs")
		}
		return err
	})
	if err := s.Cluster.Start(t.Context(), kube.APIServer); err != nil {
		t.Fatal(err)
	}
	s.succeed(t, leader)
	kube.Await(t, "all machines run", s.settled("headless", 3))
	if diff := cmp.Diff(before, s.names(t, "headless")); diff != "" {
		t.Errorf("machines (-before +after):\n%s", diff)
	}
	if gone := s.deletedNodes(t, began); len(gone) > 0 {
		t.Errorf("Nodes were deleted: %v", gone)
	}
}
