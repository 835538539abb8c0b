//go:build kube && operator

package operator_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// O10: when there is no more time, a Pod that a budget holds is deleted, so that it still
// ends in order, and it is said whose budget that was. What a DaemonSet has is left alone.
func TestO10_ABudgetIsNotWaitedForForEver(t *testing.T) {
	s := startKind(t, hasty, kube.ReadAudit)
	node, pod := s.work(t, "forced")
	began := time.Now()
	s.shards.DeleteInstance(s.shardOf(t, node), node, false)
	var memory map[string]string
	kube.Await(t, "the Node is being drained", func(ctx context.Context) error { return s.drained(ctx, node, &memory) })
	if by := memory[infrav1.AnnotationCordonedBy]; by != infrav1.CordonedByOperator {
		t.Errorf("the Node is cordoned by %q", by)
	}
	kube.Await(t, "the instance is gone", s.gone("Machine", node))
	answers, err := s.asked("forced", pod, began)
	if want := []string{"create 429", "delete 200"}; err != nil || !slices.Equal(answers, want) {
		t.Errorf("the operator heard %v (%v), want %v", answers, err, want)
	}
	requests, err := s.Audit()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if r.Namespace == "forced" && r.Subresource == "eviction" && strings.HasPrefix(r.Name, "everywhere-") {
			t.Errorf("%s evicted %s", r.User, r.Name)
		}
	}
	kube.Await(t, "it is said", s.event(node, "DrainForced", "forced/held"))
	kube.Await(t, "it is replaced", s.settled("forced", 2))
}
