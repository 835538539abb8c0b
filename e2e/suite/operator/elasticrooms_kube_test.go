//go:build kube && operator

package operator_test

import (
	"context"
	"errors"
	"testing"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// O17: a shard without room does not keep a pool from growing: what it cannot take goes to the
// other one, and it is said.
func TestO17_AShardWithoutRoomIsPassedOver(t *testing.T) {
	s := startSystem(t)
	s.pool(t, "crowded", "shards: [a, b], subnets: narrow, rebalance: Never", 0)
	s.limit(t, "crowded", 0, 10)
	a := s.autoscaler(t)
	a.resize("crowded", 4)
	kube.Await(t, "one shard has no room", func(ctx context.Context) error {
		part, err := s.get(ctx, infrav1.KindShardGroup, "crowded--a")
		if err == nil && conditionOf(part, "CapacityAvailable") != "False" {
			err = errors.New("it does not say so")
		}
		return err
	})
	kube.Await(t, "all four Machines run", s.settled("crowded", 4))
	s.parts(t, "crowded", map[string]int64{"a": 1, "b": 3})
	kube.Await(t, "it is said", s.event("crowded", "GrowthRedirected", ""))
}
