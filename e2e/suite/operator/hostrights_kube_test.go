//go:build kube

package operator_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/env/kube"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/crds"
)

// unusedOfHosts are rights on host machines that no request of the test shows to be needed, and why they are
// granted all the same.
var unusedOfHosts = map[string]string{
	"delete hostmachines in hosts.nstance.dev":                     "asked for when an instance is gone, which a test of the inventory controller shows",
	"update machineconfigurations/finalizers in hosts.nstance.dev": "asked for within another request, where an API server guards what blocks a deletion",
}

// startHosting starts a system whose operator has host machines on, in a cluster of its own.
func startHosting(t *testing.T, abilities ...kube.Ability) *system {
	t.Helper()
	kube.Needs(t, abilities...)
	t.Parallel()
	p := &place{name: "nstance-operator", kind: hosting}
	p.tb.TB = t
	cluster := newWhole(t)
	all, err := crds.Hosts()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range all {
		apply(t, cluster.Cluster, convert(t, crd))
	}
	s := p.build(t, cluster)
	s.enter(t)
	kube.Await(t, "the operator is there, and so are its shards", s.connected)
	return s
}

// O19: with host machines on, the operator was refused nothing for want of a right, and it has no right on them that it does
// not use: a configuration is made, edited, locked, edited again and pruned, a machine chooses twice, and an operation is asked for.
func TestO19_HostRightsAreWhatIsUsed(t *testing.T) {
	s := startHosting(t, kube.BeAlone, kube.ReadAudit)
	scheme := runtime.NewScheme()
	if err := hostsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(s.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &hostWorld{hostCourt: &hostCourt{cluster: s.Cluster}, admin: admin}
	machines := func(want int) {
		t.Helper()
		kube.Await(t, fmt.Sprintf("%d instances have HostMachines", want), func(ctx context.Context) error {
			var all hostsv1.HostMachineList
			if err := admin.List(ctx, &all); err != nil {
				return err
			}
			if len(all.Items) != want {
				return fmt.Errorf("%d HostMachines", len(all.Items))
			}
			return nil
		})
	}
	s.shards.UpsertGroup("a", "metal", 1)
	machines(1)
	w.configure(t)
	w.awaitVersions(t, "gpu-v1 v1.36.0")
	w.edit(t, func(s *hostsv1.MachineConfigurationSpec) { s.Template.Kubernetes.Version = "v1.36.1" })
	w.awaitVersions(t, "gpu-v1 v1.36.1")
	m := &hostsv1.HostMachine{
		ObjectMeta: metav1.ObjectMeta{Name: "box", Annotations: map[string]string{hostsv1.AnnotationReselect: ""}},
		Spec:       hostsv1.HostMachineSpec{Provisioner: hostsv1.ProvisionerManual},
	}
	w.make(t, m)
	kube.Await(t, "the machine has chosen again", func(ctx context.Context) error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		if _, asked := m.Annotations[hostsv1.AnnotationReselect]; asked || m.Status.Configuration == nil || m.Status.Configuration.Desired == nil {
			return fmt.Errorf("annotations %v, status %+v", m.Annotations, m.Status.Configuration)
		}
		return nil
	})
	operation := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{Name: "again"}}
	operation.Spec.MachineRef, operation.Spec.OperationName = &hostsv1.MachineReference{Name: "box"}, "reboot"
	w.make(t, operation)
	kube.Await(t, "the operation says that nobody carries it out", func(ctx context.Context) error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(operation), operation); err != nil {
			return err
		}
		if meta.FindStatusCondition(operation.Status.Conditions, hostsv1.ConditionClaimed) == nil {
			return fmt.Errorf("conditions %v", operation.Status.Conditions)
		}
		return nil
	})
	kube.Await(t, "version 1 is locked, as the controller of hosts will do it", func(ctx context.Context) error {
		v := &hostsv1.MachineConfigurationVersion{}
		if err := admin.Get(ctx, client.ObjectKey{Name: "gpu-v1"}, v); err != nil {
			return err
		}
		v.Status.Deployed = true
		return admin.Status().Update(ctx, v)
	})
	none := int32(0)
	w.edit(t, func(s *hostsv1.MachineConfigurationSpec) {
		s.Template.Kubernetes.Version, s.RevisionHistoryLimit = "v1.36.2", &none
	})
	w.awaitVersions(t, "gpu-v2 v1.36.2")

	// To delete what is in use is refused while the operator is down.
	kube.Await(t, "the machine names version 2", func(ctx context.Context) error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		two := int32(2)
		m.Spec.ConfigurationRef = &hostsv1.ConfigurationReference{Name: "gpu", Version: &two}
		return admin.Update(ctx, m)
	})
	s.operator.Kill(t)
	version := &hostsv1.MachineConfigurationVersion{ObjectMeta: metav1.ObjectMeta{Name: "gpu-v2"}}
	kube.Await(t, "the policy knows the machine", func(ctx context.Context) error {
		if err := admin.Delete(ctx, version, client.DryRunAll); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	if err := admin.Delete(t.Context(), version); err == nil || !strings.Contains(err.Error(), "gpu-v2 is in use") {
		t.Errorf("with the operator down a version in use is deleted: %v", err)
	}
	if err := admin.DeleteAllOf(t.Context(), version); err == nil || !strings.Contains(err.Error(), "gpu-v2 is in use") {
		t.Errorf("with the operator down all versions are deleted: %v", err)
	}
	w.awaitVersions(t, "gpu-v2 v1.36.2")
	s.judgeHostRights(t)
}

// judgeHostRights compares what the operator may do with host machines with what its requests did.
func (s *system) judgeHostRights(t *testing.T) {
	t.Helper()
	requests, err := s.Audit()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, r := range requests {
		if r.User != s.user() {
			continue
		}
		right := r.Verb + " " + resourceName(r.Group, r.Resource, r.Subresource)
		if r.Unauthorized {
			t.Errorf("the operator may not %s: %s", right, r.URI)
		}
		used[right] = true
	}
	granted := 0
	rights := s.grants(t)[s.user()]
	slices.Sort(rights)
	for _, right := range slices.Compact(rights) {
		verb, resource, _ := strings.Cut(right, " ")
		if !strings.HasSuffix(resource, " in "+hostsv1.GroupVersion.Group) && !strings.Contains(resource, "validatingadmissionpolic") {
			continue // TestO19_TheChartGrantsWhatIsUsed has them
		}
		granted++
		if !used[right] && unusedOfHosts[right] == "" && !(verb == "list" && used["watch "+resource]) {
			t.Errorf("the operator may %s, and never did", right)
		}
	}
	if granted < 10 {
		t.Errorf("%d rights on host machines are granted, which is too few to show anything", granted)
	}
	for _, right := range slices.Sorted(maps.Keys(unusedOfHosts)) {
		if used[right] || !slices.Contains(rights, right) {
			t.Errorf("%s is excused, and is used or not granted", right)
		}
	}
}
