//go:build kube && operator

package operator_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"nstance.dev/e2e/env/kube"
)

// A crowd is more machines of one group on one shard than may go within a minute because their
// objects were deleted: these are bound.
const (
	crowd = 13
	bound = 10
)

// Somebody deletes the operator's namespace, with everything in it. As long as a minute is not
// over, no more machines go than the bound, and nobody deletes the Nodes of those that stay.
func (s *system) withoutNamespace(t *testing.T) {
	s.poolToLeave(t, "lost", "shards: [a], rebalance: Never", crowd)
	names, began := s.names(t, "lost"), time.Now()
	if _, err := s.Kubectl(t.Context(), "delete", "namespace", s.namespace, "--wait=false"); err != nil {
		t.Fatal(err)
	}
	gone := map[string]string{} // and why
	for time.Since(began) < 40*time.Second {
		seen := s.ends(t, names)
		if time.Since(began) >= time.Minute {
			break // a look that took so long may have seen what the next minute allows
		}
		maps.Copy(gone, seen)
		time.Sleep(time.Second)
	}
	left := slices.DeleteFunc(names, func(name string) bool { return gone[name] != "" })
	why := map[string]int{}
	for _, reason := range gone {
		why[reason]++
	}
	t.Logf("measured: of %d machines %d are left, gone are %v, the operator has ended: %t", crowd, len(left), why, s.operator.Ended())
	if len(left) < crowd-bound {
		t.Errorf("of %d machines %d are left, and no more than %d may go", crowd, len(left), bound)
	}
	for _, name := range s.deletedNodes(t, began) {
		if slices.Contains(left, name) {
			t.Errorf("Node %s was deleted, and its machine runs", name)
		}
	}
}

// ends returns those of instances whose end is decided, or over, with the reason: what a server
// says of one that it does not hear for a while on a busy box is no end.
func (s *system) ends(t *testing.T, ids []string) map[string]string {
	t.Helper()
	ends := map[string]string{}
	kube.Await(t, "the servers say what is with the instances", func(ctx context.Context) error {
		clear(ends)
		for _, id := range ids {
			ends[id] = "it is over"
		}
		for _, shard := range s.shards.Shards() {
			all, complete, err := s.shards.Instances(ctx, shard)
			if err != nil || !complete {
				return fmt.Errorf("shard %s: complete: %t: %w", shard, complete, err)
			}
			for _, in := range all {
				if slices.Contains(ids, in.GetInstanceId()) {
					ends[in.GetInstanceId()] = in.GetCondemned().GetReason()
				}
			}
		}
		maps.DeleteFunc(ends, func(_, why string) bool { return why == "" })
		return nil
	})
	return ends
}
