// Package operations says of each MachineOperation that it waits, and that this release has no
// controller which carries it out: an operation that is asked for is never met with silence.
//
// It owns status.state of an operation without one, and condition Claimed. It labels, starts and
// deletes nothing.
//
// Rights: machineoperations list watch, their status patch.
package operations

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/status"
)

// Reconciler keeps the statuses of operations. Both fields are required; it is safe for
// concurrent use.
type Reconciler struct {
	Client client.Client
	Now    func() time.Time
}

var manager = status.FieldManager("hosts-operations")

// SetupWithManager makes a manager run the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, o controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hosts-operations").
		For(&hostsv1.MachineOperation{}).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
	if err != nil {
		return fmt.Errorf("controller hosts-operations: %w", err)
	}
	return nil
}

// Reconcile says what there is to say of one operation.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	op := &hostsv1.MachineOperation{}
	if err := r.Client.Get(ctx, request.NamespacedName, op); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if state := op.Status.State; !op.DeletionTimestamp.IsZero() || state != "" && state != hostsv1.OperationPending {
		return ctrl.Result{}, nil // an executor has taken it
	}
	next := hostsv1.MachineOperationStatus{
		State: hostsv1.OperationPending,
		Conditions: status.Next(op.Status.Conditions, []metav1.Condition{status.False(hostsv1.ConditionClaimed, hostsv1.ReasonNoController,
			fmt.Sprintf("%s is not carried out: this release has no controller for operations", op.Spec.OperationName))}, op.Generation, r.Now()),
	}
	if op.Status.State == next.State && equality.Semantic.DeepEqual(status.Select(op.Status.Conditions, next.Conditions), next.Conditions) {
		return ctrl.Result{}, nil
	}
	object := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{Name: op.Name, UID: op.UID}, Status: next}
	if err := status.Apply(ctx, r.Client, object, manager); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write the status of MachineOperation %s: %w", op.Name, err)
	}
	log.FromContext(ctx).Info("operation waits", "operation", op.Name, "name", op.Spec.OperationName, "reason", next.Conditions[0].Message)
	return ctrl.Result{}, nil
}
