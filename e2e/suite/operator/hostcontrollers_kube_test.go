//go:build kube

package operator_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"nstance.dev/e2e/env/kube"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	hostinventory "nstance.dev/operator/controllers/hosts/inventory"
	"nstance.dev/operator/controllers/hosts/selection"
	"nstance.dev/operator/controllers/hosts/versions"
	"nstance.dev/operator/policies/policytest"
)

// hostWorld is a cluster in which the controllers of host machines run, as the operator.
type hostWorld struct {
	*hostCourt
	admin    client.Client // a user with all rights
	versions *versions.Reconciler
	known    *hostShard
}

func newHostWorld(t *testing.T) *hostWorld {
	t.Helper()
	w := &hostWorld{hostCourt: newHostCourt(t)}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := hostsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config, err := w.cluster.User(policytest.Params.User, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	o := ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: asShipped}
	o.Controller.SkipNameValidation = &yes
	mgr, err := ctrl.NewManager(config, o)
	if err != nil {
		t.Fatal(err)
	}
	live, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	events := mgr.GetEventRecorder("nstance-operator")
	w.versions = versions.New(versions.Options{Client: mgr.GetClient(), Live: live, Events: events, Now: time.Now})
	some := controller.Options{MaxConcurrentReconciles: 5, SkipNameValidation: &yes}
	if err := w.versions.SetupWithManager(mgr, some); err != nil {
		t.Fatal(err)
	}
	err = selection.SetupWithManager(t.Context(), mgr, selection.Options{
		Client: mgr.GetClient(), Live: live, Events: events, APIServer: func() string { return "v1.36.3" }, Now: time.Now,
	}, some, some)
	if err != nil {
		t.Fatal(err)
	}
	w.known = newHostShard()
	instances := hostinventory.New(hostinventory.Options{
		Client: mgr.GetClient(), Inventory: w.known.store, Tenant: hostTenant, Events: events, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err := instances.SetupWithManager(t.Context(), mgr, w.known.hub, some); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if w.admin, err = client.New(w.cluster.Admin(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *hostWorld) make(t *testing.T, object client.Object) {
	t.Helper()
	if err := w.admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// configure makes configuration gpu, which selects all machines.
func (w *hostWorld) configure(t *testing.T) {
	t.Helper()
	c := &hostsv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	c.Spec.MachineSelector = &hostsv1.MachineSelector{}
	c.Spec.Template = hostsv1.Template{
		Image:      hostsv1.Image{Type: hostsv1.ImageOCI, OCI: &hostsv1.OCIImage{Reference: "node:1"}},
		Kubernetes: hostsv1.Kubernetes{Version: "v1.36.0"},
	}
	w.make(t, c)
}

func (w *hostWorld) edit(t *testing.T, change func(*hostsv1.MachineConfigurationSpec)) {
	t.Helper()
	kube.Await(t, "edit the configuration", func(ctx context.Context) error {
		c := &hostsv1.MachineConfiguration{}
		if err := w.admin.Get(ctx, client.ObjectKey{Name: "gpu"}, c); err != nil {
			return err
		}
		change(&c.Spec)
		return w.admin.Update(ctx, c)
	})
}

// awaitVersions waits until these versions exist, written as `gpu-v1 v1.36.0 locked`.
func (w *hostWorld) awaitVersions(t *testing.T, want ...string) {
	t.Helper()
	kube.Await(t, strings.Join(want, ", "), func(ctx context.Context) error {
		var all hostsv1.MachineConfigurationVersionList
		if err := w.admin.List(ctx, &all); err != nil {
			return err
		}
		var got []string
		for i := range all.Items {
			v := &all.Items[i]
			line := v.Name + " " + v.Spec.Template.Kubernetes.Version
			if v.Status.Deployed {
				line += " locked"
			}
			got = append(got, line)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("versions %v", got)
		}
		return nil
	})
}

// M18, M19, M22, M24, M26, M27, M34: the life of versions on a real server, which keeps the rules:
// a version is made, edited, locked, follows the next edit, cannot be changed any more by anybody,
// and is pruned when no machine refers to it.
func TestM18M19M22M24M26M27M34_VersionsOnARealServer(t *testing.T) {
	ownCluster(t)
	w := newHostWorld(t)
	w.configure(t)
	w.awaitVersions(t, "gpu-v1 v1.36.0")
	w.edit(t, func(s *hostsv1.MachineConfigurationSpec) { s.Template.Kubernetes.Version = "v1.36.1" })
	w.awaitVersions(t, "gpu-v1 v1.36.1")
	for number := int32(1); number <= 5; number++ {
		content, err := w.versions.Lock(t.Context(), "gpu", number, "box")
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("v1.36.%d", number); content.Template.Kubernetes.Version != want {
			t.Fatalf("version %d is locked with %s, want %s", number, content.Template.Kubernetes.Version, want)
		}
		if number == 5 {
			break
		}
		w.edit(t, func(s *hostsv1.MachineConfigurationSpec) {
			s.Template.Kubernetes.Version = fmt.Sprintf("v1.36.%d", number+1)
		})
		kube.Await(t, fmt.Sprintf("version %d", number+1), func(ctx context.Context) error {
			v := &hostsv1.MachineConfigurationVersion{}
			return w.admin.Get(ctx, client.ObjectKey{Name: fmt.Sprintf("gpu-v%d", number+1)}, v)
		})
	}
	v := &hostsv1.MachineConfigurationVersion{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Name: "gpu-v1"}, v); err != nil {
		t.Fatal(err)
	}
	v.Spec.Template.Kubernetes.Version = "v1.36.9"
	operator, err := w.cluster.User(policytest.Params.User, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	asOperator, err := client.New(operator, client.Options{Scheme: w.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := asOperator.Update(t.Context(), v); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "version is deployed") {
		t.Errorf("the operator changes a locked version: %v", err)
	}
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "box"}, Spec: hostsv1.HostMachineSpec{Provisioner: hostsv1.ProvisionerManual}}
	one := int32(1)
	m.Spec.ConfigurationRef = &hostsv1.ConfigurationReference{Name: "gpu", Version: &one}
	w.make(t, m)
	limit := int32(2)
	w.edit(t, func(s *hostsv1.MachineConfigurationSpec) { s.RevisionHistoryLimit = &limit })
	w.awaitVersions(t, "gpu-v1 v1.36.1 locked", "gpu-v4 v1.36.4 locked", "gpu-v5 v1.36.5 locked")
}

// awaitCounters waits until the configuration says how many machines were built from it, and how many
// of them are outdated. It does so after all else that follows from a change of machines.
func (w *hostWorld) awaitCounters(t *testing.T, applied, outdated int32) {
	t.Helper()
	kube.Await(t, fmt.Sprintf("of %d machines %d are outdated", applied, outdated), func(ctx context.Context) error {
		c := &hostsv1.MachineConfiguration{}
		if err := w.admin.Get(ctx, client.ObjectKey{Name: "gpu"}, c); err != nil {
			return err
		}
		if n := c.Status.Machines; n == nil || n.Applied != applied || n.Outdated != outdated {
			return fmt.Errorf("its counters are %+v", n)
		}
		return nil
	})
}

// awaitDesired waits until machines want a version, and say so of a repave with that reason.
func (w *hostWorld) awaitDesired(t *testing.T, fleet int, version int32, reason string) {
	t.Helper()
	kube.Await(t, fmt.Sprintf("%d machines want version %d: %s", fleet, version, reason), func(ctx context.Context) error {
		var all hostsv1.HostMachineList
		if err := w.admin.List(ctx, &all); err != nil {
			return err
		}
		n := 0
		for i := range all.Items {
			c := all.Items[i].Status.Configuration
			said := meta.FindStatusCondition(all.Items[i].Status.Conditions, hostsv1.ConditionRepavePending)
			if c != nil && c.Desired != nil && c.Desired.Version == version && said != nil && said.Reason == reason {
				n++
			}
		}
		if n != fleet {
			return fmt.Errorf("%d of %d", n, fleet)
		}
		return nil
	})
}

// writes counts the writes of the operator that came since and were accepted, by resource.
func (w *hostWorld) writes(t *testing.T, since time.Time) map[string]int {
	t.Helper()
	all, err := w.cluster.Audit()
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, r := range all {
		if r.User == policytest.Params.User && r.Time.After(since) && r.Code < 300 && slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb) {
			n[r.Resource]++
		}
	}
	return n
}
