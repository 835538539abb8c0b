package status_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/status"
	"nstance.dev/operator/testworld"
)

// What one manager leaves out, and had, is gone; what others have stays.
func TestStatusAndSpec(t *testing.T) {
	object := &infrav1.NstanceMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"},
		Spec:       infrav1.NstanceMachineSpec{Mode: infrav1.MachineManaged},
	}
	c := testworld.NewClientBuilder(t).WithStatusSubresource(object).WithObjects(object).Build()
	apply := func(manager string, s infrav1.NstanceMachineStatus) {
		t.Helper()
		part := &infrav1.NstanceMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}, Status: s}
		if err := status.Apply(t.Context(), c, part, status.FieldManager(manager)); err != nil {
			t.Fatal(err)
		}
	}
	apply("one", infrav1.NstanceMachineStatus{Shard: "a", InstanceType: "small"})
	apply("other", infrav1.NstanceMachineStatus{LastError: "no room"})
	apply("one", infrav1.NstanceMachineStatus{Shard: "a"})
	changed := &infrav1.NstanceMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", ResourceVersion: "1"}}
	if err := status.ApplyUnchanged(t.Context(), c, changed, status.FieldManager("one")); !apierrors.IsConflict(err) {
		t.Errorf("an object that has changed: %v, want a conflict", err)
	}
	if err := status.ApplySpec(t.Context(), c, object, map[string]any{"providerID": "p"}, infrav1.FieldManager); err != nil {
		t.Fatal(err)
	}
	var got infrav1.NstanceMachine
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(infrav1.NstanceMachineStatus{Shard: "a", LastError: "no room"}, got.Status); diff != "" {
		t.Error(diff)
	}
	if got.Spec.ProviderID != "p" || got.Spec.Mode != infrav1.MachineManaged {
		t.Errorf("spec %+v", got.Spec)
	}
}
