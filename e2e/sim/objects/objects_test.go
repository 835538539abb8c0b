package objects_test

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func create(t *testing.T, s *objects.Store, o client.Object) {
	t.Helper()
	err := s.Write("user", o, func(client.Object) error {
		s.Identify(o)
		return s.Direct.Create(t.Context(), o)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What is written is in the store and in its journal, with a generation that follows the spec alone; what has changed
// nothing, or failed, is in neither.
func TestWrites(t *testing.T) {
	s := objects.New(t, &corev1.Node{})
	var says []string
	s.Changed = func(c objects.Change) {
		what := "change"
		switch {
		case c.Before == nil:
			what = "new"
		case c.After == nil:
			what = "gone"
		}
		says = append(says, c.By+" "+what+" "+c.Object().GetName())
	}
	create(t, s, newNode("n"))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Change("kubelet", newNode("n"), true, func(o client.Object) { o.(*corev1.Node).Status.NodeInfo.BootID = "boot-1" }))
	must(s.Change("user", newNode("n"), false, func(o client.Object) { o.(*corev1.Node).Spec.Unschedulable = true }))
	must(s.Write("user", newNode("n"), func(client.Object) error { return nil }))
	n, there := objects.Find[*corev1.Node](s, "n")
	if !there || n.Generation != 2 || n.UID != "n-1" || n.Status.NodeInfo.BootID != "boot-1" {
		t.Fatalf("%v", n)
	}
	if err := s.Change("user", newNode("other"), false, func(client.Object) {}); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	failed := errors.New("it does not arrive")
	if err := s.Write("user", newNode("n"), func(client.Object) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	must(s.Write("user", newNode("n"), func(client.Object) error { return s.Direct.Delete(t.Context(), newNode("n")) }))
	want := []string{"user new n", "kubelet change n", "user change n", "user gone n"}
	if all := objects.All[*corev1.Node](s); len(all) > 0 || !slices.Equal(says, want) {
		t.Errorf("%d are left of %q", len(all), says)
	}
}

// A view has what was handed over, and the index of what it has; of a kind that it does not follow it has what there is.
func TestAViewLags(t *testing.T) {
	s := objects.New(t)
	create(t, s, newNode("a"))
	v := s.NewView([]string{"Node"})
	if err := v.IndexField(t.Context(), nil, "first", func(o client.Object) []string { return []string{o.GetName()[:1]} }); err != nil {
		t.Fatal(err)
	}
	names := func(opts ...client.ListOption) (all []string) {
		var list corev1.NodeList
		if err := v.List(t.Context(), &list, opts...); err != nil {
			t.Fatal(err)
		}
		for _, n := range list.Items {
			all = append(all, n.Name)
		}
		return all
	}
	create(t, s, newNode("b"))
	if err := s.Write("user", newNode("a"), func(client.Object) error { return s.Direct.Delete(t.Context(), newNode("a")) }); err != nil {
		t.Fatal(err)
	}
	if got := names(); !v.Waits("Node") || !slices.Equal(got, []string{"a"}) {
		t.Errorf("before anything is handed over there are %q", got)
	}
	if c := v.HandOver("Node"); c.Before != nil || c.Object().GetName() != "b" {
		t.Errorf("%v", c)
	}
	if got := names(client.MatchingFields{"first": "b"}); !slices.Equal(got, []string{"b"}) || len(objects.Known[*corev1.Node](v)) != 2 {
		t.Errorf("after the first there are %q", got)
	}
	v.HandOver("Node")
	if err := v.Get(t.Context(), client.ObjectKey{Name: "a"}, &corev1.Node{}); v.Waits("Node") || !apierrors.IsNotFound(err) {
		t.Errorf("after the second: %v", err)
	}
	create(t, s, &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "m"}})
	if err := v.Get(t.Context(), client.ObjectKey{Name: "m"}, &hostsv1.HostMachine{}); err != nil {
		t.Errorf("of a kind that is not followed: %v", err)
	}
}

// A call that names another object, or another state of it, is refused.
func TestWhatIsMeant(t *testing.T) {
	n := newNode("n")
	n.UID, n.ResourceVersion = "uid", "7"
	other := types.UID("other")
	for _, tt := range []struct {
		name string
		err  error
		ok   bool
	}{
		{"anything", objects.Meant(n, "", ""), true},
		{"this one", objects.Meant(n, "uid", "7"), true},
		{"what is not there", objects.Meant(nil, "uid", "7"), true},
		{"another one", objects.Meant(n, "other", ""), false},
		{"an earlier state", objects.Meant(n, "uid", "6"), false},
		{"a deletion", objects.MeantByDeletion(n, nil), true},
		{"the deletion of another one", objects.MeantByDeletion(n, &metav1.Preconditions{UID: &other}), false},
		{"the deletion of an earlier state", objects.MeantByDeletion(n, &metav1.Preconditions{ResourceVersion: ptr.To("6")}), false},
		{"a patch", objects.MeantByPatch(n, n, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"uid":"uid"}}`))), true},
		{"the patch of another one", objects.MeantByPatch(n, n, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"uid":"other"}}`))), false},
	} {
		if tt.ok != (tt.err == nil) || tt.err != nil && !apierrors.IsConflict(tt.err) {
			t.Errorf("%s: %v", tt.name, tt.err)
		}
	}
}
