//go:build kube

package operator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/env/kube"
)

// healthCheck lets Machines fail whose Nodes fall silent.
const healthCheck = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: NAME}
spec:
  clusterName: CLUSTER
  selector: {matchLabels: {cluster.x-k8s.io/pool-name: NAME}}
  checks:
    unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 1}]
`

// O9: machines whose Nodes fall silent are replaced, each once, and if most of a pool is
// silent at the same time, one after another.
func TestO9_SilentNodesAreReplacedOneByOne(t *testing.T) {
	s := startSystem(t, kube.ReadAudit)
	s.pool(t, "silent", "shards: [a, b, c], rebalance: Never", 5)
	s.make(t, strings.NewReplacer("NAME", "silent", "CLUSTER", s.cluster()).Replace(healthCheck))
	began, names := time.Now(), s.names(t, "silent")
	dead := names[:3]
	s.ground.powerOff(t, func(name string) bool { return slices.Contains(dead, name) })
	for _, name := range dead {
		kube.Await(t, "a silent one is gone", s.vanished(name))
	}
	kube.Await(t, "all are replaced", s.settled("silent", 5))

	requests, err := s.Audit()
	if err != nil {
		t.Fatal(err)
	}
	var story []string // what was deleted, in that order, by the number of the machine
	for _, r := range requests {
		number := slices.Index(dead, r.Name)
		if r.Verb != "delete" || r.Code != 200 || !r.Time.After(began) || number < 0 {
			continue
		}
		switch r.Resource {
		case "machines", "nodes":
			story = append(story, fmt.Sprintf("%s %d", r.Resource, number))
		}
	}
	story = slices.Compact(story)
	for n := 0; n+1 < len(story); n += 2 {
		machine, node := story[n], story[n+1]
		if strings.Replace(machine, "machines", "nodes", 1) != node {
			t.Fatalf("not one after another: %v", story)
		}
	}
	if len(story) != 6 {
		t.Errorf("three Machines with their Nodes were to go, and what went is %v", story)
	}
	if gone := s.deletedNodes(t, began); len(gone) != 3 {
		t.Errorf("Nodes %v were deleted", gone)
	}
}
