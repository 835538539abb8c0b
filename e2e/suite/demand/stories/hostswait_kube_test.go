//go:build kube && demand

package stories_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nstance.dev/e2e/env/demandcluster"
	"nstance.dev/e2e/env/kube"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// M3, M12: a machine that is bound and has no configuration waits for three deadlines of joining as it does at first. Its need says
// why it is short once the first is over, and buys nothing more. When a configuration comes the machine waits no longer for one.
func TestM3M12_AMachineWaitsForItsConfiguration(t *testing.T) {
	w := newHostWorld(t)
	t.Run("hosts", func(t *testing.T) {
		s := w.begin(t, "hosts-wait")
		t.Cleanup(s.clear)
		warm := s.awaitBindings("a machine is warm", 0)[0]
		s.deploy(1, pod("web", "900m"))
		s.awaitHosts("the machine is bound, and has a HostMachine", warm)
		s.awaitBindings("another machine is warm", 1)
		first, err := s.bindings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		kube.Await(t, "the need says that a configuration is missing", s.short("ConfigurationPending"))
		for time.Since(began) < 3*joinDeadline {
			time.Sleep(time.Second)
			now, err := s.bindings(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(first, now); diff != "" {
				t.Fatalf("machines after %v (-before +after):\n%s", time.Since(began).Round(time.Second), diff)
			}
		}
		s.awaitHosts("it still waits", warm)
		if err := s.short("ConfigurationPending")(t.Context()); err != nil {
			t.Error(err)
		}

		s.configure("workers")
		kube.Await(t, "the machine has a configuration", func(ctx context.Context) error {
			all, err := s.hosts(ctx)
			if err != nil {
				return err
			}
			m := all[0]
			if c := m.Status.Configuration; c == nil || c.Desired == nil || c.Desired.Name != "workers" || !meta.IsStatusConditionFalse(m.Status.Conditions, hostsv1.ConditionConfigurationPending) {
				return fmt.Errorf("status %+v", m.Status)
			}
			return nil
		})
	})
}

// short says what keeps a need from being short for a reason.
func (s *teller) short(reason string) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := s.Custom.Resource(demandcluster.AvailableCapacities).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var said []string
		for _, ac := range list.Items {
			is, _, _ := unstructured.NestedString(ac.Object, "status", "shortfall", "reason")
			if is == reason {
				return nil
			}
			said = append(said, fmt.Sprintf("%q", is))
		}
		return fmt.Errorf("short for %v", said)
	}
}

// configure makes a MachineConfiguration that selects all machines.
func (s *teller) configure(name string) {
	s.t.Helper()
	_, err := s.Custom.Resource(hostsv1.GroupVersion.WithResource("machineconfigurations")).Create(s.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": hostsv1.GroupVersion.String(), "kind": hostsv1.KindMachineConfiguration, "metadata": map[string]any{"name": name},
		"spec": map[string]any{"machineSelector": map[string]any{}, "template": map[string]any{
			"image":      map[string]any{"type": "OCI", "oci": map[string]any{"reference": "node@sha256:" + strings.Repeat("0", 64)}},
			"kubernetes": map[string]any{"version": "v1.36.0"},
		}},
	}}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}
