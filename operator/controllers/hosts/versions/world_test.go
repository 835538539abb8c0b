package versions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/crdtest"
	"nstance.dev/operator/hosts/versions"
	"nstance.dev/operator/testworld"
)

// requestGPU asks for configuration gpu.
var requestGPU = ctrl.Request{NamespacedName: types.NamespacedName{Name: "gpu"}}

// errCrash stands for the end of the process: the write before it may have been made or not.
var errCrash = errors.New("the process ends here")

// world is a reconciler at an API server that keeps the rules of the schemas for versions, and
// refuses to delete what a machine refers to.
type world struct {
	t       *testing.T
	api     client.WithWatch // whoever else writes
	r       *Reconciler
	events  testworld.Events
	writes  []string
	counted map[string]int // steps written and refused, by what the reconciler says of them
	// digest is what tags of images are resolved to; nil: they are not resolved.
	digest func(t *hostsv1.Template) (hostsv1.SHA256, error)
	// before is called before each write of the reconciler; an error refuses it.
	before func(write string) error
	// after is called after each write that was made; an error loses the answer.
	after func(write string) error
}

func run(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, api: testworld.NewClientBuilder(t).Build(), counted: map[string]int{}}
		w.restart()
		test(w)
	})
}

// restart makes a new reconciler, as a new process does.
func (w *world) restart() {
	made := func(write string, do func() error) error {
		if w.before != nil {
			if err := w.before(write); err != nil {
				return err
			}
		}
		w.writes = append(w.writes, write)
		if err := do(); err != nil {
			return err
		}
		if w.after != nil {
			return w.after(write)
		}
		return nil
	}
	judge := w.judge()
	writer := interceptor.NewClient(w.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return made("create "+o.GetName(), func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return made("update "+o.GetName(), func() error {
				stored := &hostsv1.MachineConfigurationVersion{}
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), stored); err != nil {
					return err
				}
				asked := crdtest.Case{Stored: w.unstructured(stored), Sent: w.unstructured(o)}
				if errs := judge.Answer(ctx, asked); len(errs) > 0 && stored.ResourceVersion == o.GetResourceVersion() {
					return apierrors.NewInvalid(hostsv1.GroupVersion.WithKind(hostsv1.KindMachineConfigurationVersion).GroupKind(), o.GetName(), errs)
				}
				return c.Update(ctx, o, opts...)
			})
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return made(fmt.Sprintf("patch %s of %s", sub, o.GetName()), func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return made("delete "+o.GetName(), func() error {
				if w.referenced(o.GetName()) {
					return apierrors.NewForbidden(schema.GroupResource{Group: hostsv1.GroupVersion.Group, Resource: "machineconfigurationversions"}, o.GetName(), errors.New("ValidatingAdmissionPolicy 'nstance-hosts-versions-in-use' with binding 'nstance-hosts-versions-in-use' denied request: a machine refers to it"))
				}
				return c.Delete(ctx, o, opts...)
			})
		},
	})
	count := func(what string) { w.counted[what]++ }
	o := Options{Client: writer, Live: w.api, Events: &w.events, Now: time.Now, Wrote: count, Refused: count}
	if w.digest != nil {
		o.Digest = func(_ context.Context, t *hostsv1.Template) (hostsv1.SHA256, error) { return w.digest(t) }
	}
	w.r = New(o)
}

func (w *world) judge() *crdtest.Judge {
	w.t.Helper()
	all, err := crds.Hosts()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, crd := range all {
		if crd.Spec.Names.Kind == hostsv1.KindMachineConfigurationVersion {
			judge, err := crdtest.NewJudge(crd)
			if err != nil {
				w.t.Fatal(err)
			}
			return judge
		}
	}
	w.t.Fatal("no definition of versions")
	return nil
}

func (w *world) unstructured(o client.Object) crdtest.Object {
	w.t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return object
}

// referenced is what the policy knows.
func (w *world) referenced(name string) bool {
	var machines hostsv1.HostMachineList
	w.must(w.api.List(w.t.Context(), &machines))
	for i := range machines.Items {
		for _, ref := range versions.Of(&machines.Items[i]) {
			if versions.Name(string(ref.Name), ref.Version) == name {
				return true
			}
		}
	}
	return false
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// make makes configuration gpu, whose template has this kubelet.
func (w *world) make(kubelet string) {
	w.t.Helper()
	w.must(w.api.Create(w.t.Context(), &hostsv1.MachineConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: hostsv1.MachineConfigurationSpec{Template: hostsv1.Template{
			Image:      hostsv1.Image{Type: hostsv1.ImageOCI, OCI: &hostsv1.OCIImage{Reference: "node:1"}},
			Kubernetes: hostsv1.Kubernetes{Version: kubelet},
		}},
	}))
}

func (w *world) configuration() *hostsv1.MachineConfiguration {
	w.t.Helper()
	c := &hostsv1.MachineConfiguration{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: "gpu"}, c))
	return c
}

// edit changes the configuration.
func (w *world) edit(change func(*hostsv1.MachineConfigurationSpec)) {
	w.t.Helper()
	c := w.configuration()
	change(&c.Spec)
	c.Generation++
	w.must(w.api.Update(w.t.Context(), c))
}

func (w *world) editKubelet(version string) {
	w.t.Helper()
	w.edit(func(s *hostsv1.MachineConfigurationSpec) { s.Template.Kubernetes.Version = version })
}

func (w *world) version(name string) *hostsv1.MachineConfigurationVersion {
	w.t.Helper()
	v := &hostsv1.MachineConfigurationVersion{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, v))
	return v
}

// reconcile looks at the configuration until it has nothing to do, and goes on after errors as
// the queue does.
func (w *world) reconcile() {
	w.t.Helper()
	for range 20 {
		result, err := w.r.Reconcile(w.t.Context(), requestGPU)
		if errors.Is(err, errCrash) {
			w.restart()
			continue
		}
		if apierrors.IsConflict(err) {
			continue
		}
		w.must(err)
		if result.RequeueAfter == 0 {
			return
		}
		time.Sleep(result.RequeueAfter)
	}
	w.t.Fatal("there is no end")
}

func (w *world) lock(number int32) Locked {
	w.t.Helper()
	content, err := w.r.Lock(w.t.Context(), "gpu", number, "m")
	w.must(err)
	return content
}

// all are the versions as `gpu-v1 v1.36.3 locked`.
func (w *world) all() string {
	w.t.Helper()
	var list hostsv1.MachineConfigurationVersionList
	w.must(w.api.List(w.t.Context(), &list))
	var lines []string
	for i := range list.Items {
		v := &list.Items[i]
		line := v.Name + " " + v.Spec.Template.Kubernetes.Version
		if v.Status.Deployed {
			line += " locked"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

func (w *world) want(all string) {
	w.t.Helper()
	if got := w.all(); got != all {
		w.t.Errorf("versions %s\nwant %s", got, all)
	}
}

// refer makes a machine that refers to a version.
func (w *world) refer(machine string, number int32) {
	w.t.Helper()
	m := &hostsv1.HostMachine{
		ObjectMeta: metav1.ObjectMeta{Name: machine},
		Spec:       hostsv1.HostMachineSpec{Provisioner: hostsv1.ProvisionerManual},
	}
	w.must(w.api.Create(w.t.Context(), m))
	m.Status.Configuration = &hostsv1.ConfigurationStatus{Applied: &hostsv1.AppliedVersion{
		VersionReference: hostsv1.VersionReference{Name: "gpu", Version: number, UID: string(w.configuration().UID)},
	}}
	w.must(w.api.Status().Update(w.t.Context(), m))
}
