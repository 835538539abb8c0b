package selection

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/status"
)

// IndexField is the index of HostMachines by the name of their Node.
const IndexField = "nodeName"

// Index is the value of a HostMachine in the index.
func Index(o client.Object) []string {
	if m, ok := o.(*hostsv1.HostMachine); ok {
		return []string{m.NodeName()}
	}
	return nil
}

// SetupWithManager makes a manager run both reconcilers.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, opts Options, o controller.Options, selectors controller.Options) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &hostsv1.HostMachine{}, IndexField, Index); err != nil {
		return fmt.Errorf("index HostMachines by %s: %w", IndexField, err)
	}
	all := handler.EnqueueRequestsFromMapFunc(everyMachine(opts.Client))
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hosts-selection").
		For(&hostsv1.HostMachine{}).
		Watches(&hostsv1.HostMachine{}, handler.EnqueueRequestsFromMapFunc(rivalsOf(opts.Client)), builder.WithPredicates(comesOrGoes())).
		Watches(&hostsv1.MachineConfiguration{}, all, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&hostsv1.MachineConfigurationVersion{}, all, builder.WithPredicates(choosable())).
		WithOptions(o).
		Complete(status.RequeueConflicts(New(opts)))
	if err != nil {
		return fmt.Errorf("controller hosts-selection: %w", err)
	}
	every := handler.EnqueueRequestsFromMapFunc(everyConfiguration(opts.Client))
	err = ctrl.NewControllerManagedBy(mgr).
		Named("hosts-selectors").
		For(&hostsv1.MachineConfiguration{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, saidOfSelector()))).
		Watches(&hostsv1.MachineConfiguration{}, every, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&hostsv1.HostMachine{}, every, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		WithOptions(selectors).
		Complete(status.RequeueConflicts(NewSelectors(opts)))
	if err != nil {
		return fmt.Errorf("controller hosts-selectors: %w", err)
	}
	return nil
}

// everyMachine returns all machines: a configuration or a version has changed, and each may be
// concerned.
func everyMachine(from client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		var list hostsv1.HostMachineList
		if err := from.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil // the cache ends with the process
		}
		all := make([]reconcile.Request, 0, len(list.Items))
		for i := range list.Items {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKey{Name: list.Items[i].Name}})
		}
		return all
	}
}

func everyConfiguration(from client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		var list hostsv1.MachineConfigurationList
		if err := from.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil // the cache ends with the process
		}
		all := make([]reconcile.Request, 0, len(list.Items))
		for i := range list.Items {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKey{Name: list.Items[i].Name}})
		}
		return all
	}
}

// rivalsOf returns the machines that have the same node name as one that came or went.
func rivalsOf(from client.Reader) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		var list hostsv1.HostMachineList
		if err := from.List(ctx, &list, client.MatchingFields{IndexField: Index(o)[0]}, client.UnsafeDisableDeepCopy); err != nil {
			return nil // the cache ends with the process
		}
		var all []reconcile.Request
		for i := range list.Items {
			if name := list.Items[i].Name; name != o.GetName() {
				all = append(all, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
			}
		}
		return all
	}
}

// saidOfSelector are changes of the condition that is written here.
func saidOfSelector() predicate.Predicate {
	return status.Rewritten(func(c *hostsv1.MachineConfiguration) []metav1.Condition { return c.Status.Conditions }, hostsv1.ConditionSelectorValid)
}

// comesOrGoes are the events of machines that come and go; a node name never changes.
func comesOrGoes() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}

// choosable are the changes of versions that a choice may follow from, counters left out.
func choosable() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok1 := e.ObjectOld.(*hostsv1.MachineConfigurationVersion)
		is, ok2 := e.ObjectNew.(*hostsv1.MachineConfigurationVersion)
		bad := func(v *hostsv1.MachineConfigurationVersion) bool {
			return meta.IsStatusConditionFalse(v.Status.Conditions, hostsv1.ConditionHealthy)
		}
		return !ok1 || !ok2 || was.Generation != is.Generation || was.Status.Deployed != is.Status.Deployed || was.Status.Hash != is.Status.Hash ||
			bad(was) != bad(is) || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
			!equality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences)
	}}
}
