//go:build kube

package operator_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"nstance.dev/e2e/env/kube"
)

// O11: instances that end as soon as they are heard of, while Cluster API is still making
// Machines of them, leave nothing behind, and the pool gets its size.
func TestO11_InstancesThatEndWhileTheirMachinesAreMade(t *testing.T) {
	s := startSystem(t)
	s.pool(t, "brief", "shards: [a, b]", 0)
	s.scale(t, "brief", 6)
	var brief []string
	kube.Await(t, "six have ended as soon as they were heard of", func(ctx context.Context) error {
		for _, shard := range s.shards.Shards() {
			all, _, err := s.shards.Instances(ctx, shard)
			if err != nil {
				return err
			}
			for _, in := range all {
				if in.GetGroup() == "brief" && len(brief) < 6 && !slices.Contains(brief, in.GetInstanceId()) {
					s.shards.DeleteInstance(shard, in.GetInstanceId(), true)
					brief = append(brief, in.GetInstanceId())
				}
			}
		}
		if len(brief) < 6 {
			return fmt.Errorf("%d have", len(brief))
		}
		return nil
	})
	for _, id := range brief {
		kube.Await(t, "nothing is left of one", s.vanished(id))
	}
	kube.Await(t, "they are replaced", s.settled("brief", 6))
}
