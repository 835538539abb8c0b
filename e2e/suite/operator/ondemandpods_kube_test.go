//go:build kube && operator

package operator_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/env/kube"
)

// O12: each Pod that asks for a machine of its own gets one, in the zone of its volume, runs
// there, and nobody else does; a Pod that comes back under its name gets another. The machine
// ends with the Pod, within a minute after the time that it lingers, also if the operator is
// away when the Pod ends.
func TestO12_PodsWithMachinesOfTheirOwn(t *testing.T) {
	s := startKind(t, gated, kube.ReadAudit)
	s.onDemand(t, "own")
	s.lonely(t, "own", lonesome)
	s.lonely(t, "own", once)
	where := s.spread(t, 4)
	s.onlyThose(t, where)
	if shard := s.shardOf(t, where["once"]); shard != "b" {
		t.Errorf("the Pod with a volume in the zone of b has a machine of %s", shard)
	}

	began := time.Now()
	if err := s.client.CoreV1().Pods(s.onDemandNamespace()).Delete(t.Context(), "again-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.client.AppsV1().Deployments(s.onDemandNamespace()).Delete(t.Context(), "own", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var second string
	kube.Await(t, "the Pod of the same name has another machine", func(ctx context.Context) error {
		now, err := s.runningPods(ctx, s.onDemandNamespace())
		if err != nil {
			return err
		}
		if second = now["again-0"]; second == "" || second == where["again-0"] {
			return fmt.Errorf("there run %v", now)
		}
		return nil
	})
	kube.Await(t, "it is seen that the others have ended", func(ctx context.Context) error {
		return s.ending(ctx, where, "once")
	})
	s.crash(t)
	s.finish(t, "once")
	s.start(t)
	for _, node := range where {
		kube.Await(t, "a machine is gone", s.vanished(node))
	}
	for pod, node := range where {
		if pod != "once" {
			s.goneInTime(t, pod, node, began)
		}
	}
	if now, err := s.runningPods(t.Context(), s.onDemandNamespace()); err != nil || now["again-0"] != second {
		t.Errorf("there run %v (%v), again-0 was on %s", now, err, second)
	}
	if err := s.client.AppsV1().StatefulSets(s.onDemandNamespace()).Delete(t.Context(), "again", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.Await(t, "so is the last one", s.vanished(second))
}
