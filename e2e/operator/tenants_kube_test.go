//go:build kube

package operator_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/kube"
	"nstance.dev/e2e/shards"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// O14: a second operator, of another tenant, works on the same servers and in the same
// Kubernetes cluster. Each has its own machines, although their pools have the same name, and
// neither touches or mentions what is the other's.
func TestO14_TwoTenantsSeeNothingOfEachOther(t *testing.T) {
	s := startSystem(t)
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
	other.scale(t, "both", 0)
	kube.Await(t, "the other tenant has no machines", other.settled("both", 0))
	if err := s.settled("both", 2)(t.Context()); err != nil {
		t.Errorf("this tenant: %v", err)
	}
}

// metrics returns what the operator counts.
func (i *installation) metrics(t *testing.T) string {
	t.Helper()
	for _, arg := range i.args {
		address, is := strings.CutPrefix(arg, "--metrics-bind-address=")
		if !is {
			continue
		}
		answer, err := http.Get(fmt.Sprintf("http://%s/metrics", address))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	t.Fatal("the operator has no address for metrics")
	return ""
}
