//go:build kube

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// O10: a Node that a leader before this one was draining for an instance that is to stay, as its
// shard says, gets its place back. What the operator cordoned it uncordons, and a Node that a
// person had cordoned stays as that person wants it. No instance ends by it.
func TestO10_ADrainIsUndone(t *testing.T) {
	s := startSystem(t)
	s.pool(t, "undone", "shards: [a, b], rebalance: Never", 2)
	names := s.names(t, "undone")
	s.crash(t)
	s.begin(t, names[0], infrav1.CordonedByOperator)
	if _, err := s.Kubectl(t.Context(), "cordon", names[1]); err != nil {
		t.Fatal(err)
	}
	s.begin(t, names[1], "")
	s.start(t)
	for _, name := range names {
		kube.Await(t, "the marks are gone", s.unmarked(name))
		kube.Await(t, "it is said", s.event(name, "DrainCancelled", ""))
	}
	for name, want := range map[string]bool{names[0]: false, names[1]: true} {
		node, err := s.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if node.Spec.Unschedulable != want {
			t.Errorf("Node %s is unschedulable: %t, want %t", name, node.Spec.Unschedulable, want)
		}
	}
	if diff := cmp.Diff(names, s.names(t, "undone")); diff != "" {
		t.Errorf("machines (-before +after):\n%s", diff)
	}
}

// begin writes on a Node what a leader remembers of a drain: that it evicts Pods, and who cordoned
// the Node, "" for somebody else.
func (s *system) begin(t *testing.T, node, cordonedBy string) {
	t.Helper()
	now := time.Now().UTC()
	notes := fmt.Sprintf("%q:%q,%q:%q,%q:%q,%q:%q,%q:%q",
		infrav1.AnnotationDrainInstance, node, infrav1.AnnotationDrainReason, "scale-down", infrav1.AnnotationDrainPhase, infrav1.DrainEvicting,
		infrav1.AnnotationDrainStartedAt, now.Format(time.RFC3339), infrav1.AnnotationDrainDeadline, now.Add(10*time.Minute).Format(time.RFC3339))
	spec := fmt.Sprintf(`"taints":[{"key":%q,"value":"scale-down","effect":"NoSchedule"}]`, infrav1.TaintDraining)
	if cordonedBy != "" {
		notes += fmt.Sprintf(",%q:%q", infrav1.AnnotationCordonedBy, cordonedBy)
		spec += `,"unschedulable":true`
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%s}},"spec":{%s}}`, notes, spec)
	if _, err := s.client.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// unmarked returns nil once nothing on a Node speaks of a drain.
func (s *system) unmarked(node string) func(context.Context) error {
	return func(ctx context.Context) error {
		object, err := s.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for key := range object.Annotations {
			if strings.HasPrefix(key, "nstance.dev/drain-") || key == infrav1.AnnotationCordonedBy {
				err = errors.Join(err, fmt.Errorf("there is %s", key))
			}
		}
		for _, taint := range object.Spec.Taints {
			if taint.Key == infrav1.TaintDraining {
				err = errors.Join(err, errors.New("it is tainted"))
			}
		}
		return err
	}
}
