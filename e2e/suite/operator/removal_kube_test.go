//go:build kube

package operator_test

import (
	"slices"
	"testing"
	"time"
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
	gone := map[string]bool{}
	for time.Since(began) < 40*time.Second {
		for _, name := range names {
			gone[name] = gone[name] || s.instance(t, name) != "running"
		}
		time.Sleep(time.Second)
	}
	left := slices.DeleteFunc(names, func(name string) bool { return gone[name] })
	t.Logf("measured: of %d machines %d are left, the operator has ended: %t", crowd, len(left), s.operator.Ended())
	if len(left) < crowd-bound {
		t.Errorf("of %d machines %d are left, and no more than %d may go", crowd, len(left), bound)
	}
	for _, name := range s.deletedNodes(t, began) {
		if slices.Contains(left, name) {
			t.Errorf("Node %s was deleted, and its machine runs", name)
		}
	}
}
