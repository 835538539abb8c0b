package hostsim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/crdtest"
)

// kinds are those of the world.
var kinds = []string{hostsv1.KindHostMachine, hostsv1.KindMachineConfiguration, hostsv1.KindMachineConfigurationVersion}

// api is the API server: objects in memory, with the rules of their schemas and policies.
type api struct {
	*objects.Store

	judges map[string]*crdtest.Judge // by kind
}

func newAPI(t testing.TB, changed func(objects.Change)) *api {
	t.Helper()
	judges, err := definitions()
	if err != nil {
		t.Fatal(err)
	}
	a := &api{Store: objects.New(t), judges: judges}
	a.Changed = changed
	return a
}

// definitions are dear to compile, and made once.
var definitions = sync.OnceValues(func() (map[string]*crdtest.Judge, error) {
	all, err := crds.Hosts()
	judges := map[string]*crdtest.Judge{}
	for _, crd := range all {
		judge, wrong := crdtest.NewJudge(crd)
		judges[crd.Spec.Names.Kind], err = judge, errors.Join(err, wrong)
	}
	return judges, err
})

// admit is what the rules of the schema say of an object that is sent. A write that is decided from
// an old copy is refused for that, and not here.
func (a *api) admit(stored, sent client.Object, status bool) error {
	kind := a.Kind(sent)
	if kind == hostsv1.KindHostMachine || stored != nil && stored.GetResourceVersion() != sent.GetResourceVersion() {
		return nil
	}
	c := crdtest.Case{Sent: tree(sent), Status: status}
	if stored != nil {
		c.Stored = tree(stored)
	}
	if errs := a.judges[kind].Answer(context.Background(), c); len(errs) > 0 {
		return apierrors.NewInvalid(hostsv1.GroupVersion.WithKind(kind).GroupKind(), sent.GetName(), errs)
	}
	return nil
}

func tree(o client.Object) crdtest.Object {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		panic(err) // a typed object
	}
	return object
}

// mayDelete is what the policies say: nothing is deleted that a machine refers to.
func (a *api) mayDelete(o client.Object) error {
	var resource string
	for _, machine := range objects.All[*hostsv1.HostMachine](a.Store) {
		switch o := o.(type) {
		case *hostsv1.MachineConfigurationVersion:
			if refers(machine, o.Name) {
				resource = "machineconfigurationversions"
			}
		case *hostsv1.MachineConfiguration:
			if names(machine, o.Name) {
				resource = "machineconfigurations"
			}
		}
	}
	if resource == "" {
		return nil
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: hostsv1.GroupVersion.Group, Resource: resource}, o.GetName(), errors.New("a machine refers to it"))
}

// references are the versions that a machine refers to, by the names of their objects.
func references(m *hostsv1.HostMachine) (all []string) {
	if ref := m.Spec.ConfigurationRef; ref != nil && ref.Version != nil {
		all = append(all, fmt.Sprintf("%s-v%d", ref.Name, *ref.Version))
	}
	of := m.Status.Configuration
	if of == nil {
		return all
	}
	if of.Assigned != nil {
		all = append(all, nameOf(of.Assigned.VersionReference))
	}
	if of.Applied != nil {
		all = append(all, nameOf(of.Applied.VersionReference))
	}
	if of.Previous != nil {
		all = append(all, nameOf(*of.Previous))
	}
	return all
}

func nameOf(ref hostsv1.VersionReference) string { return fmt.Sprintf("%s-v%d", ref.Name, ref.Version) }

func refers(m *hostsv1.HostMachine, version string) bool {
	return slices.Contains(references(m), version)
}

// names is whether a machine refers to a configuration by its name.
func names(m *hostsv1.HostMachine, configuration string) bool {
	if ref := m.Spec.ConfigurationRef; ref != nil && string(ref.Name) == configuration {
		return true
	}
	return slices.ContainsFunc(references(m), func(v string) bool {
		return v[:strings.LastIndex(v, "-v")] == configuration
	})
}

// delete deletes an object, if it is the one that is meant.
func (a *api) delete(ctx context.Context, stored, o client.Object, p *metav1.Preconditions) error {
	if err := objects.MeantByDeletion(stored, p); err != nil {
		return err
	}
	if stored != nil {
		if err := a.mayDelete(stored); err != nil {
			return err
		}
	}
	return a.Direct.Delete(ctx, o)
}
