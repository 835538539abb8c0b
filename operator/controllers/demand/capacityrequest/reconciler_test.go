package capacityrequest

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/operator/testworld"
)

// world is a reconciler at an API server; its cache is the API server itself unless it is told to lag.
type world struct {
	t        *testing.T
	api      client.WithWatch
	r        *Reconciler
	events   testworld.Events
	log      testworld.Log
	outcomes []Outcome
	warned   []translate.Reason
	calls    []string // that change something
	fail     error    // of the next one
	behind   bool     // the cache shows no request
}

func run(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		b := testworld.NewClientBuilder(t).WithStatusSubresource(&demandv1.CapacityRequest{})
		for _, index := range Indexes() {
			b = b.WithIndex(index.Of, index.Field, index.By)
		}
		w.api = b.Build()
		w.r = New(Options{
			Cache: w.cache(), Writer: w.writer(), Events: &w.events, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
			Translation: func() translate.Options { return translate.Options{VolumeTopology: true} },
			Observer: Observer{
				Reconciled: func(o Outcome) { w.outcomes = append(w.outcomes, o) },
				Warned:     func(r translate.Reason) { w.warned = append(w.warned, r) },
			},
		})
		test(t, w)
	})
}

// writer is the client of the reconciler that writes: each call is noted, and may be made to fail.
func (w *world) writer() client.Client {
	return interceptor.NewClient(w.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := w.called("create " + o.GetName()); err != nil {
				return err
			}
			made, _ := o.(*demandv1.CapacityRequest)
			status := made.Status
			made.Status = demandv1.CapacityRequestStatus{} // as an API server does
			err := c.Create(ctx, o, opts...)
			if err != nil {
				made.Status = status
			}
			return err
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := w.called("patch " + o.GetName()); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := w.called("patch " + sub + " of " + o.GetName()); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteAllOfOption) error {
			if err := w.called("delete all"); err != nil {
				return err
			}
			return c.DeleteAllOf(ctx, o, opts...)
		},
	})
}

// cache is what it reads: while it is behind it shows no request.
func (w *world) cache() client.Client {
	return interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, request := o.(*demandv1.CapacityRequest); request && w.behind {
				return apierrors.NewNotFound(demandv1.GroupVersion.WithResource("capacityrequests").GroupResource(), key.Name)
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, requests := list.(*demandv1.CapacityRequestList); requests && w.behind {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
}

func (w *world) called(what string) error {
	w.calls = append(w.calls, what)
	err := w.fail
	w.fail = nil
	return err
}

// reconcile looks at the Pod, and returns what was called.
func (w *world) reconcile() (calls []string, again bool) {
	w.t.Helper()
	w.calls = nil
	result, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "web-0"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.calls, result.RequeueAfter > 0
}

func (w *world) expect(what string, want ...string) {
	w.t.Helper()
	if calls, _ := w.reconcile(); !slices.Equal(calls, want) {
		w.t.Errorf("%s: calls %q, want %q", what, calls, want)
	}
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.api.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// change changes the Pod as its author and the kubelet do.
func (w *world) change(change func(*corev1.Pod)) {
	w.t.Helper()
	var p corev1.Pod
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "shop", Name: "web-0"}, &p); err != nil {
		w.t.Fatal(err)
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	change(&p)
	status := p.Status
	if err := w.api.Update(w.t.Context(), &p); err != nil {
		w.t.Fatal(err)
	}
	p.Status = status
	if err := w.api.Status().Update(w.t.Context(), &p); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) requests() map[string]demandv1.CapacityRequest {
	w.t.Helper()
	var list demandv1.CapacityRequestList
	if err := w.api.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	all := map[string]demandv1.CapacityRequest{}
	for _, r := range list.Items {
		all[r.Name] = r
	}
	return all
}

const name = "web-0-0f3c9a51"

func TestAPodHasARequestFromItsCreationToItsEnd(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.expect("no Pod")
		w.create(pod())
		w.expect("a new Pod", "create "+name, "patch status of "+name)
		r := w.requests()[name]
		if r.Status.Phase != demandv1.CapacityRequestPending || r.Labels[demandv1.LabelOwnedByPod] != uid || r.OwnerReferences[0].UID != uid ||
			cpu(r) != "1" || len(r.Status.Conditions) != 1 || r.Status.Conditions[0].LastTransitionTime.IsZero() {
			t.Errorf("request %+v", r)
		}
		w.expect("nothing is new")
		w.change(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
		})
		w.expect("it was resized", "patch "+name)
		if r := w.requests()[name]; cpu(r) != "2" {
			t.Errorf("it asks for %v", r.Spec.Resources.Requests)
		}
		w.change(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		w.expect("it has ended", "delete all")
		w.expect("it is kept for days")
		if n := len(w.requests()); n != 0 {
			t.Errorf("%d requests are left", n)
		}
		log := w.log.Take()
		for _, said := range []string{"capacity request made", "the Pod takes capacity", "capacity request changed", "deleting the capacity request", "the Pod has ended: Succeeded"} {
			if !strings.Contains(log, said) {
				t.Errorf("the log does not say %q:\n%s", said, log)
			}
		}
		want := []Outcome{Gone, Created, Exists, Patched, Terminal, Terminal}
		if !slices.Equal(w.outcomes, want) {
			t.Errorf("outcomes %v, want %v", w.outcomes, want)
		}
	})
}

// A Pod that is made again under its name has a request of its own.
func TestAPodOfTheSameNameIsAnotherPod(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create(pod())
		w.reconcile()
		if err := w.api.Delete(t.Context(), pod()); err != nil {
			t.Fatal(err)
		}
		w.create(pod(func(p *corev1.Pod) { p.UID = "9b000000-0000-4000-8000-000000000002" }))
		w.expect("the next Pod", "create web-0-9b000000", "patch status of web-0-9b000000")
		if names := slices.Sorted(maps.Keys(w.requests())); !slices.Equal(names, []string{name, "web-0-9b000000"}) {
			t.Errorf("requests %v", names)
		}
	})
}

// A request that is not named after its Pod is the Pod's by its label, and one that is named so and made for another
// Pod is not.
func TestARequestOfAnotherName(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create(pod())
		w.reconcile()
		made := w.requests()[name]
		if err := w.api.Delete(t.Context(), &made); err != nil {
			t.Fatal(err)
		}
		other := demandv1.CapacityRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: made.Namespace, Name: name, Labels: map[string]string{demandv1.LabelOwnedByPod: "another"}}, Spec: made.Spec,
		}
		w.create(&other)
		made.Name, made.ResourceVersion = "mine", ""
		w.create(&made)
		w.expect("there is one for the Pod")
	})
}

// While the cache is behind nothing is made twice; when it must have caught up the Pod is looked at again.
func TestACacheThatLags(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create(pod())
		w.behind = true
		w.expect("a new Pod", "create "+name, "patch status of "+name)
		if calls, again := w.reconcile(); len(calls) > 0 || !again {
			t.Errorf("calls %q, looked at again: %v", calls, again)
		}
		time.Sleep(expected)
		w.expect("it is asked again, and is there", "create "+name)
		w.behind = false
		time.Sleep(2 * expected)
		if err := w.api.DeleteAllOf(t.Context(), &demandv1.CapacityRequest{}, client.InNamespace("shop")); err != nil {
			t.Fatal(err)
		}
		w.expect("somebody has deleted it", "create "+name, "patch status of "+name)
	})
}

// What another has made without the label is another's.
func TestRequestsOfOthersAreLeftAlone(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create(pod())
		w.create(&demandv1.CapacityRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kueue"}})
		w.reconcile()
		w.change(func(p *corev1.Pod) { p.Annotations[demandv1.AnnotationIgnore] = "true" })
		w.expect("it is ignored", "delete all")
		if names := slices.Sorted(maps.Keys(w.requests())); !slices.Equal(names, []string{"kueue"}) {
			t.Errorf("requests %v", names)
		}
	})
}

func TestFailures(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "capacityrequests"}, name, errors.New("no"))
	run(t, func(t *testing.T, w *world) {
		w.create(pod())
		w.fail = refused
		if _, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "web-0"}}); !errors.Is(err, refused) {
			t.Errorf("error %v", err)
		}
		w.expect("it is tried again", "create "+name, "patch status of "+name)
		if !slices.Equal(w.outcomes, []Outcome{Failed, Created}) {
			t.Errorf("outcomes %v", w.outcomes)
		}
	})
}

// An annotation that cannot be read is told to the author of the Pod, once.
func TestAPenaltyThatCannotBeRead(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create(pod(annotated("nstance.dev/interruption-penalty", "much")))
		w.reconcile()
		w.reconcile()
		if all := w.events.All(); len(all) != 1 || !strings.Contains(all[0], "nstance.dev/interruption-penalty") {
			t.Errorf("events %q", all)
		}
		if !slices.Equal(w.warned, []translate.Reason{translate.InvalidPenalty}) {
			t.Errorf("warned of %v", w.warned)
		}
	})
}

// A Pod goes where its volume is, once the volume is bound.
func TestVolumes(t *testing.T) {
	zonal := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}},
		}}}},
	}}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, AllowedTopologies: []corev1.TopologySelectorTerm{{
		MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: []string{"a", "b"}}},
	}}}
	run(t, func(t *testing.T, w *world) {
		w.create(pod(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
		}))
		zones := func() string {
			w.t.Helper()
			w.reconcile()
			for _, r := range w.requests()[name].Spec.Requirements {
				if r.Key == corev1.LabelTopologyZone {
					return strings.Join(r.Values, ",")
				}
			}
			return ""
		}
		if got := zones(); got != "" {
			t.Errorf("without a claim: zones %s", got)
		}
		fast := "fast"
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0-data"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &fast}}
		w.create(claim)
		w.create(class)
		if got := zones(); got != "a,b" {
			t.Errorf("with a claim that waits: zones %s", got)
		}
		claim.Spec.VolumeName = "pv"
		if err := w.api.Update(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		w.create(zonal)
		if got := zones(); got != "b" {
			t.Errorf("with a volume: zones %s", got)
		}
		if pods := w.r.ofClaim(t.Context(), claim); len(pods) != 1 || pods[0].Name != "web-0" {
			t.Errorf("the claim concerns %v", pods)
		}
	})
}

func cpu(r demandv1.CapacityRequest) string {
	q := r.Spec.Resources.Requests[corev1.ResourceCPU]
	return q.String()
}
