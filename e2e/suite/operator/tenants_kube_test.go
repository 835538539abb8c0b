//go:build kube

package operator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/shards"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// O14: a second operator, of another tenant, works on the same servers and in the same
// Kubernetes cluster. Each has its own machines, although their pools have the same name, and
// neither touches or mentions what is the other's.
func TestO14_TwoTenantsSeeNothingOfEachOther(t *testing.T) {
	s := startSystem(t, kube.ReadAudit)
	began := time.Now()
	c := *s.core
	c.namespace = "nstance-operator-other"
	other := install(t, &c, s.shards, shards.OtherTenant, map[string]any{
		"crds": map[string]any{"install": false}, "webhook": map[string]any{"enabled": false}, "onDemand": map[string]any{"mode": "off"},
	})
	kube.Await(t, "the other operator is there", other.connected)
	s.pool(t, "both", "shards: [a, b]", 2)
	other.pool(t, "both", "shards: [a, b]", 3)

	mine, theirs := s.names(t, "both"), other.names(t, "both")
	for _, name := range theirs {
		if _, err := s.get(t.Context(), infrav1.KindMachine, name); err == nil || slices.Contains(mine, name) {
			t.Errorf("machine %s of the other tenant is this one's", name)
		}
	}
	if numbers := s.metrics(t); !strings.Contains(numbers, `nstance_operator_pool_replicas{kind="desired",pool="both"} 2`) {
		t.Errorf("the pool of two is not among these metrics:\n%s", numbers)
	}
	requests, err := s.Audit()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		writes := !slices.Contains([]string{"get", "list", "watch"}, r.Verb)
		if r.Time.Before(began) || !writes {
			continue
		}
		if r.User == s.user() && (slices.Contains(theirs, r.Name) || r.Namespace == other.namespace) ||
			r.User == other.user() && (slices.Contains(mine, r.Name) || r.Namespace == s.namespace) {
			t.Errorf("%s did %s %s of the other tenant", r.User, r.Verb, r.URI)
		}
	}
	s.untouched(t, theirs[0])
	other.scale(t, "both", 0)
	kube.Await(t, "the other tenant has no machines", other.settled("both", 0))
	if err := s.settled("both", 3)(t.Context()); err != nil {
		t.Errorf("this tenant: %v", err)
	}
}

// untouched checks that a Node of somebody else stays when it falls silent: this operator's
// shards know nothing of its instance.
func (s *system) untouched(t *testing.T, node string) {
	t.Helper()
	s.ground.powerOff(t, func(name string) bool { return name == node })
	kube.Await(t, "a Node of the other tenant is silent", func(ctx context.Context) error {
		object, err := s.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range object.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionUnknown {
				return nil
			}
		}
		return errors.New("it is ready")
	})
	s.scale(t, "both", 3) // the operator has looked at Nodes since
	kube.Await(t, "this tenant has another Node", s.settled("both", 3))
	if _, err := s.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	s.ground.set(nil)
}

// O14: in all these tests no operator has changed or deleted a Node that belonged to another
// one, although all of them have shards of the same names. It waits for all tests that have
// an operator.
func TestO14_S12_NobodyTouchesNodesOfOthers(t *testing.T) {
	requests := afterAll(t)
	operators := map[string]bool{}
	for _, i := range common.installed {
		operators[i.user()] = true
	}
	whose := map[string]string{} // Nodes, by who wrote whose they are
	for _, r := range requests {
		if r.Resource != "nodes" || !operators[r.User] || r.Code >= 300 || r.Verb != "patch" && r.Verb != "delete" {
			continue
		}
		if owner, has := whose[r.Name]; has && owner != r.User {
			t.Errorf("%s did %s Node %s of %s", r.User, r.Verb, r.Name, owner)
		}
		whose[r.Name] = r.User
	}
}
