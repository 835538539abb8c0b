package operations

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/testworld"
)

func TestNoControllerIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := testworld.NewClientBuilder(t).Build()
		r := &Reconciler{Client: api, Now: time.Now}
		look := func(name string) *hostsv1.MachineOperation {
			t.Helper()
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
				t.Fatal(err)
			}
			op := &hostsv1.MachineOperation{}
			if err := api.Get(t.Context(), client.ObjectKey{Name: name}, op); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			return op
		}
		look("gone")
		op := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: hostsv1.MachineOperationSpec{OperationName: "reboot"}}
		if err := api.Create(t.Context(), op); err != nil {
			t.Fatal(err)
		}
		op = look("one")
		c := meta.FindStatusCondition(op.Status.Conditions, hostsv1.ConditionClaimed)
		if op.Status.State != hostsv1.OperationPending || c == nil || c.Status != metav1.ConditionFalse || c.Reason != hostsv1.ReasonNoController ||
			c.Message != "reboot is not carried out: this release has no controller for operations" {
			t.Errorf("status %+v", op.Status)
		}
		if again := look("one"); again.ResourceVersion != op.ResourceVersion {
			t.Error("what is said already is written again")
		}
		op.Status.State, op.Status.Conditions = hostsv1.OperationComplete, nil
		if err := api.Status().Update(t.Context(), op); err != nil {
			t.Fatal(err)
		}
		if op = look("one"); op.Status.State != hostsv1.OperationComplete || len(op.Status.Conditions) > 0 {
			t.Errorf("an operation that has finished is touched: %+v", op.Status)
		}
	})
}
