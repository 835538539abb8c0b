package operations

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
	"nstance.dev/operator/status"
)

// Indexes of MachineOperations: by the name of the machine, and by the UID of the parent.
const (
	IndexMachine = "machine"
	IndexParent  = "parentUID"
)

// OfMachine is the value of an operation in the index by machine.
func OfMachine(o client.Object) []string {
	if op, ok := o.(*hostsv1.MachineOperation); ok && op.Spec.MachineRef != nil {
		return []string{string(op.Spec.MachineRef.Name)}
	}
	return nil
}

// OfParent is the value of an operation in the index by parent.
func OfParent(o client.Object) []string {
	if uid := o.GetLabels()[hostsv1.LabelParentUID]; uid != "" {
		return []string{uid}
	}
	return nil
}

// Register registers the indexes.
func Register(ctx context.Context, indexer client.FieldIndexer) error {
	for field, value := range map[string]client.IndexerFunc{IndexMachine: OfMachine, IndexParent: OfParent} {
		if err := indexer.IndexField(ctx, &hostsv1.MachineOperation{}, field, value); err != nil {
			return fmt.Errorf("index MachineOperations by %s: %w", field, err)
		}
	}
	return nil
}

// SetupWithManager makes a manager run the reconciler.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, o controller.Options) error {
	if err := Register(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hosts-operations").
		For(&hostsv1.MachineOperation{}).
		Watches(&hostsv1.MachineOperation{}, handler.EnqueueRequestsFromMapFunc(r.around), builder.WithPredicates(moved())).
		Watches(&hostsv1.HostMachine{}, handler.EnqueueRequestsFromMapFunc(r.ofMachine), builder.WithPredicates(concerning())).
		WatchesRawSource(source.Func(r.woken)).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
	if err != nil {
		return fmt.Errorf("controller hosts-operations: %w", err)
	}
	return nil
}

// moved are the changes of an operation that others wait for.
func moved() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok1 := e.ObjectOld.(*hostsv1.MachineOperation)
		is, ok2 := e.ObjectNew.(*hostsv1.MachineOperation)
		return !ok1 || !ok2 || was.Status.State != is.Status.State || was.Status.Reason != is.Status.Reason || (was.Status.Children == nil) != (is.Status.Children == nil) ||
			was.Labels[hostsv1.LabelExecutor] != is.Labels[hostsv1.LabelExecutor] || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()
	}}
}

// around are the operations that may be waiting for one: its parent, and the unfinished ones of its machine. It has every
// state of an operation, and a request may come when its object is deleted already: that it has finished is noted here.
func (r *Reconciler) around(ctx context.Context, o client.Object) []reconcile.Request {
	op, ok := o.(*hostsv1.MachineOperation)
	if !ok {
		return nil
	}
	if operations.Finished(op.Status.State) {
		r.ledger.ended(op)
	}
	var all []reconcile.Request
	for _, owner := range op.OwnerReferences {
		if string(owner.UID) == op.Labels[hostsv1.LabelParentUID] {
			all = append(all, request(owner.Name))
		}
	}
	if op.Spec.MachineRef != nil {
		all = append(all, r.unfinished(ctx, string(op.Spec.MachineRef.Name), op.Name)...)
	}
	return all
}

// concerning are the changes of a machine that something follows from for its operations.
func concerning() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok1 := e.ObjectOld.(*hostsv1.HostMachine)
		is, ok2 := e.ObjectNew.(*hostsv1.HostMachine)
		// What is compared has times of package time, at which equality.Semantic panics.
		return !ok1 || !ok2 || !reflect.DeepEqual(machine(was), machine(is)) || holdOf(was, time.Time{}) != holdOf(is, time.Time{})
	}}
}

func (r *Reconciler) ofMachine(ctx context.Context, o client.Object) []reconcile.Request {
	return r.unfinished(ctx, o.GetName(), "")
}

// unfinished are the operations of a machine that have not finished, but one.
func (r *Reconciler) unfinished(ctx context.Context, name, but string) []reconcile.Request {
	var list hostsv1.MachineOperationList
	if err := r.opts.Client.List(ctx, &list, client.MatchingFields{IndexMachine: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache ends with the process
	}
	var all []reconcile.Request
	for i := range list.Items {
		op := &list.Items[i]
		if op.Name != but && op.Status.State != hostsv1.OperationComplete && op.Status.State != hostsv1.OperationFailed {
			all = append(all, request(op.Name))
		}
	}
	return all
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}
}

// wake asks for an operation. Where too many are asked for already it is left out: each that is carried out
// has the next ones asked for.
func (r *Reconciler) wake(name string) {
	select {
	case r.wakes <- name:
	default:
	}
}

// woken is the source of the requests of wake.
func (r *Reconciler) woken(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case name := <-r.wakes:
				queue.Add(request(name))
			}
		}
	}()
	return nil
}
