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
	"nstance.dev/e2e/env/shards"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/crds"
)

// unusedOfHosts are rights on host machines that no request of the test shows to be needed, and why they are
// granted all the same.
var unusedOfHosts = map[string]string{
	"update machineconfigurations/finalizers in hosts.nstance.dev": "asked for within another request, where an API server guards what blocks a deletion",
	"patch machineconfigurations in hosts.nstance.dev":             "removes the annotation by which a user releases the brake of repaves, which takes a fleet whose Nodes are gone",
}

// startHosting starts a system whose operator has host machines on, in a cluster of its own.
func startHosting(t *testing.T, abilities ...kube.Ability) *system {
	t.Helper()
	return startHostingOn(t, nil, abilities...)
}

// startHostingOn does so on shards that do something otherwise.
func startHostingOn(t *testing.T, servers []shards.Option, abilities ...kube.Ability) *system {
	t.Helper()
	ownCluster(t, abilities...)
	p := &place{name: "nstance-operator", kind: hosting, servers: servers}
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
// not use: an instance comes and is replaced, a configuration is made, edited, locked, edited again and pruned, a machine chooses
// twice, and operations are asked for.
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
	s.shards.UpsertGroup("a", "metal", 1)
	first := w.awaitHost(t, "")
	s.shards.DeleteInstance("a", first, true)
	w.awaitHost(t, first)

	w.configure(t)
	w.awaitVersions(t, "gpu-v1 v1.36.0")
	w.edit(t, func(s *hostsv1.MachineConfigurationSpec) { s.Template.Kubernetes.Version = "v1.36.1" })
	w.awaitVersions(t, "gpu-v1 v1.36.1")
	w.chooseAgain(t, "box")
	w.askFor(t, "reboot", "box")
	w.askForAll(t)
	w.lockByHand(t, "gpu-v1")
	none := int32(0)
	w.edit(t, func(s *hostsv1.MachineConfigurationSpec) {
		s.Template.Kubernetes.Version, s.RevisionHistoryLimit = "v1.36.2", &none
	})
	w.awaitVersions(t, "gpu-v2 v1.36.2")

	w.name(t, "box", "gpu", 2)
	s.operator.Kill(t)
	w.refuseWhileInUse(t, "gpu-v2")
	w.awaitVersions(t, "gpu-v2 v1.36.2")
	s.judgeHostRights(t)
}

// awaitHost waits until one HostMachine is there, and is another one, and returns its name.
func (w *hostWorld) awaitHost(t *testing.T, than string) (name string) {
	t.Helper()
	kube.Await(t, "an instance has a HostMachine", func(ctx context.Context) error {
		var all hostsv1.HostMachineList
		if err := w.admin.List(ctx, &all); err != nil {
			return err
		}
		if len(all.Items) != 1 || all.Items[0].Name == than {
			return fmt.Errorf("%d HostMachines", len(all.Items))
		}
		name = all.Items[0].Name
		return nil
	})
	return name
}

// chooseAgain makes a machine that asks for another choice, and waits until it has been made.
func (w *hostWorld) chooseAgain(t *testing.T, machine string) {
	t.Helper()
	m := &hostsv1.HostMachine{
		ObjectMeta: metav1.ObjectMeta{Name: machine, Annotations: map[string]string{hostsv1.AnnotationReselect: ""}},
		Spec:       hostsv1.HostMachineSpec{Provisioner: hostsv1.ProvisionerManual},
	}
	w.make(t, m)
	kube.Await(t, machine+" has chosen again", func(ctx context.Context) error {
		if err := w.admin.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		if _, asked := m.Annotations[hostsv1.AnnotationReselect]; asked || m.Status.Configuration == nil || m.Status.Configuration.Desired == nil {
			return fmt.Errorf("annotations %v, status %+v", m.Annotations, m.Status.Configuration)
		}
		return nil
	})
}

// askFor asks for an operation, and waits until it says who carries it out.
func (w *hostWorld) askFor(t *testing.T, operation string, machine hostsv1.Label) {
	t.Helper()
	o := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{Name: "again"}}
	o.Spec.MachineRef, o.Spec.OperationName = &hostsv1.MachineReference{Name: machine}, operation
	w.make(t, o)
	kube.Await(t, "the operation says who carries it out", func(ctx context.Context) error {
		if err := w.admin.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if meta.FindStatusCondition(o.Status.Conditions, hostsv1.ConditionClaimed) == nil {
			return fmt.Errorf("conditions %v", o.Status.Conditions)
		}
		return nil
	})
}

// askForAll asks for an operation on all machines that each refuses, and waits until it is deleted, as its time to live
// is nothing.
func (w *hostWorld) askForAll(t *testing.T) {
	t.Helper()
	none := int32(0)
	o := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	o.Spec.MachineSelector, o.Spec.OperationName, o.Spec.TTLSecondsAfterFinished = &hostsv1.MachineSelector{}, "reboot", &none
	o.Spec.Parameters = map[string]hostsv1.ParameterValue{"speed": "1"}
	w.make(t, o)
	kube.Await(t, "the operation on all machines is over", func(ctx context.Context) error {
		err := w.admin.Get(ctx, client.ObjectKeyFromObject(o), o)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s/%s, %w", o.Status.State, o.Status.Reason, err)
		}
		return nil
	})
}

// lockByHand locks a version as the controller of hosts does when it assigns it.
func (w *hostWorld) lockByHand(t *testing.T, version string) {
	t.Helper()
	kube.Await(t, version+" is locked", func(ctx context.Context) error {
		v := &hostsv1.MachineConfigurationVersion{}
		if err := w.admin.Get(ctx, client.ObjectKey{Name: version}, v); err != nil {
			return err
		}
		v.Status.Deployed = true
		return w.admin.Status().Update(ctx, v)
	})
}

// name has a machine name a version of a configuration.
func (w *hostWorld) name(t *testing.T, machine string, configuration hostsv1.ConfigurationName, version int32) {
	t.Helper()
	kube.Await(t, fmt.Sprintf("%s names version %d", machine, version), func(ctx context.Context) error {
		m := &hostsv1.HostMachine{}
		if err := w.admin.Get(ctx, client.ObjectKey{Name: machine}, m); err != nil {
			return err
		}
		m.Spec.ConfigurationRef = &hostsv1.ConfigurationReference{Name: configuration, Version: &version}
		return w.admin.Update(ctx, m)
	})
}

// refuseWhileInUse checks that nobody can delete a version that a machine refers to, by itself or with all (M32).
func (w *hostWorld) refuseWhileInUse(t *testing.T, name string) {
	t.Helper()
	version := &hostsv1.MachineConfigurationVersion{ObjectMeta: metav1.ObjectMeta{Name: name}}
	kube.Await(t, "the policy knows the machine", func(ctx context.Context) error {
		if err := w.admin.Delete(ctx, version, client.DryRunAll); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	if err := w.admin.Delete(t.Context(), version); err == nil || !strings.Contains(err.Error(), name+" is in use") {
		t.Errorf("with the operator down a version in use is deleted: %v", err)
	}
	if err := w.admin.DeleteAllOf(t.Context(), version); err == nil || !strings.Contains(err.Error(), name+" is in use") {
		t.Errorf("with the operator down all versions are deleted: %v", err)
	}
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
