package operations

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
	"nstance.dev/operator/status"
)

// machines keeps the names of the unfinished operations in the status of their machines.
type machines struct{ client client.Client }

var managerOfNames = status.FieldManager("hosts-machine-operations")

// maxNames is how many operations a machine names.
const maxNames = 16

// Reconcile writes which operations of one machine have not finished, if its status does not say so.
func (r *machines) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	m := &hostsv1.HostMachine{}
	if err := r.client.Get(ctx, request.NamespacedName, m); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("read HostMachine %s: %w", request.Name, err)
	}
	var of hostsv1.MachineOperationList
	if err := r.client.List(ctx, &of, client.MatchingFields{IndexMachine: m.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list operations of HostMachine %s: %w", m.Name, err)
	}
	var names []string
	for i := range of.Items {
		if op := &of.Items[i]; !operations.Finished(op.Status.State) {
			names = append(names, op.Name)
		}
	}
	slices.Sort(names)
	names = names[:min(len(names), maxNames)]
	if equality.Semantic.DeepEqual(m.Status.Operations, names) {
		return ctrl.Result{}, nil
	}
	object := &hostsv1.HostMachine{}
	object.Name, object.UID, object.Status.Operations = m.Name, m.UID, names
	if err := status.Apply(ctx, r.client, object, managerOfNames); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write the operations of HostMachine %s: %w", m.Name, err)
	}
	return ctrl.Result{}, nil
}

// SetupNames makes a manager keep the names of unfinished operations in the status of their machines. The indexes
// of [Register] have to be there.
func SetupNames(mgr ctrl.Manager, o controller.Options) error {
	r := &machines{client: mgr.GetClient()}
	names := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok1 := e.ObjectOld.(*hostsv1.HostMachine)
		is, ok2 := e.ObjectNew.(*hostsv1.HostMachine)
		return !ok1 || !ok2 || !equality.Semantic.DeepEqual(was.Status.Operations, is.Status.Operations)
	}}
	finishes := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok1 := e.ObjectOld.(*hostsv1.MachineOperation)
		is, ok2 := e.ObjectNew.(*hostsv1.MachineOperation)
		return !ok1 || !ok2 || operations.Finished(was.Status.State) != operations.Finished(is.Status.State)
	}}
	of := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, op client.Object) []reconcile.Request {
		var all []reconcile.Request
		for _, name := range OfMachine(op) {
			all = append(all, request(name))
		}
		return all
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hosts-machine-operations").
		For(&hostsv1.HostMachine{}, builder.WithPredicates(names)).
		Watches(&hostsv1.MachineOperation{}, of, builder.WithPredicates(finishes)).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
	if err != nil {
		return fmt.Errorf("controller hosts-machine-operations: %w", err)
	}
	return nil
}
