package hostsim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/crdtest"
	"nstance.dev/operator/testworld"
)

// kinds are those of the world.
var kinds = []string{hostsv1.KindHostMachine, hostsv1.KindMachineConfiguration, hostsv1.KindMachineConfigurationVersion}

// change is one change of an object. A nil before: it is new; a nil after: it is gone.
type change struct {
	by            string
	at            time.Time
	before, after client.Object
}

// api is the API server: the fake client of controller-runtime, with what that lacks.
type api struct {
	store  client.WithWatch
	scheme *runtime.Scheme
	judges map[string]*crdtest.Judge // by kind

	mu      sync.Mutex
	made    int
	now     map[string]map[string]client.Object // by kind and name
	journal map[string][]change                 // by kind
	changed func(change)                        // is called with mu held
}

func newAPI(t testing.TB, changed func(change)) *api {
	t.Helper()
	scheme := testworld.Scheme(t)
	a := &api{
		scheme: scheme, judges: map[string]*crdtest.Judge{}, now: map[string]map[string]client.Object{}, journal: map[string][]change{}, changed: changed,
		store: testworld.NewClientBuilder(t).Build(),
	}
	for _, kind := range kinds {
		a.now[kind] = map[string]client.Object{}
	}
	judges, err := definitions()
	if err != nil {
		t.Fatal(err)
	}
	a.judges = judges
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

func (a *api) kind(o runtime.Object) string {
	kind, err := apiutil.GVKForObject(o, a.scheme)
	if err != nil {
		panic(err) // the world has the kinds that the controllers use
	}
	return strings.TrimSuffix(kind.Kind, "List")
}

// write makes a call that changes one object, and notes what came of it.
func (a *api) write(by, kind, name string, do func(stored client.Object) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := do(a.now[kind][name]); err != nil {
		return err
	}
	return a.note(by, kind, name)
}

// note takes in what a write has left of an object. The caller holds mu.
func (a *api) note(by, kind, name string) error {
	before := a.now[kind][name]
	made, err := a.scheme.New(hostsv1.GroupVersion.WithKind(kind))
	if err != nil {
		return err
	}
	after, ok := made.(client.Object)
	if !ok {
		return fmt.Errorf("%s is no object", kind)
	}
	err = a.store.Get(context.Background(), client.ObjectKey{Name: name}, after)
	switch {
	case apierrors.IsNotFound(err):
		after = nil
	case err != nil:
		return err
	}
	c := change{by: by, at: time.Now(), before: before}
	switch {
	case after == nil && before == nil:
		return nil
	case after == nil:
		delete(a.now[kind], name)
	case before != nil && before.GetResourceVersion() == after.GetResourceVersion():
		return nil
	default:
		if err := a.count(before, after); err != nil {
			return err
		}
		a.now[kind][name], c.after = after, after
	}
	a.journal[kind] = append(a.journal[kind], c)
	a.changed(c)
	return nil
}

// count gives an object its next generation where its spec has changed.
func (a *api) count(before, after client.Object) error {
	generation := int64(1)
	if before != nil {
		generation = before.GetGeneration()
		if !reflect.DeepEqual(specOf(before), specOf(after)) {
			generation++
		}
	}
	if generation == after.GetGeneration() {
		return nil
	}
	after.SetGeneration(generation)
	return a.store.Update(context.Background(), after)
}

func specOf(o client.Object) any { return reflect.ValueOf(o).Elem().FieldByName("Spec").Interface() }

// identify gives a new object its UID, which is the same in each run. The caller holds mu.
func (a *api) identify(o client.Object) {
	a.made++
	o.SetUID(types.UID(fmt.Sprintf("%s-%d", o.GetName(), a.made)))
	o.SetGeneration(1)
}

// admit is what the rules of the schema say of an object that is sent. A write that is decided from
// an old copy is refused for that, and not here.
func (a *api) admit(stored, sent client.Object, status bool) error {
	kind := a.kind(sent)
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
	for _, m := range a.now[hostsv1.KindHostMachine] {
		machine, ok := m.(*hostsv1.HostMachine)
		if !ok {
			continue
		}
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
	if stored != nil && p != nil {
		of := schema.GroupResource{Group: hostsv1.GroupVersion.Group, Resource: a.kind(o)}
		if p.UID != nil && *p.UID != stored.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != stored.GetResourceVersion() {
			return apierrors.NewConflict(of, o.GetName(), errors.New("it is another one by now"))
		}
	}
	if stored != nil {
		if err := a.mayDelete(stored); err != nil {
			return err
		}
	}
	return a.store.Delete(ctx, o)
}

// all returns the objects of a kind by name. They are not to be changed.
func all[T client.Object](a *api) []T {
	a.mu.Lock()
	defer a.mu.Unlock()
	kind := reflect.TypeFor[T]().Elem().Name()
	out := make([]T, 0, len(a.now[kind]))
	for _, o := range a.now[kind] {
		if typed, ok := o.(T); ok {
			out = append(out, typed)
		}
	}
	slices.SortFunc(out, func(x, y T) int { return cmp.Compare(x.GetName(), y.GetName()) })
	return out
}

// find returns one object, which is not to be changed.
func find[T client.Object](a *api, name string) (T, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, ok := a.now[reflect.TypeFor[T]().Elem().Name()][name].(T)
	return o, ok
}

// object is the one that a change is of.
func (c change) object() client.Object {
	if c.after != nil {
		return c.after
	}
	return c.before
}
