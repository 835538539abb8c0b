package versions

import (
	"context"
	"fmt"

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
	"nstance.dev/operator/hosts/versions"
	"nstance.dev/operator/status"
)

// SetupWithManager makes a manager run the reconciler for configurations, their versions, and
// machines that refer to them.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, o controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hosts-versions").
		For(&hostsv1.MachineConfiguration{}).
		Owns(&hostsv1.MachineConfigurationVersion{}).
		Watches(&hostsv1.HostMachine{}, handler.EnqueueRequestsFromMapFunc(referred), builder.WithPredicates(counts())).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
	if err != nil {
		return fmt.Errorf("controller hosts-versions: %w", err)
	}
	return nil
}

// referred returns the configurations that a machine has to do with.
func referred(_ context.Context, o client.Object) []reconcile.Request {
	m, ok := o.(*hostsv1.HostMachine)
	if !ok {
		return nil
	}
	names := map[hostsv1.ConfigurationName]bool{}
	for _, ref := range versions.Of(m) {
		names[ref.Name] = true
	}
	if c := m.Status.Configuration; c != nil && c.Desired != nil {
		names[c.Desired.Name] = true
	}
	var all []reconcile.Request
	for name := range names {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKey{Name: string(name)}})
	}
	return all
}

// counts are the changes of machines that counters or references follow from. Both the old and
// the new object are mapped.
func counts() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok1 := e.ObjectOld.(*hostsv1.HostMachine)
		is, ok2 := e.ObjectNew.(*hostsv1.HostMachine)
		return !ok1 || !ok2 || !equality.Semantic.DeepEqual(was.Spec.ConfigurationRef, is.Spec.ConfigurationRef) ||
			!equality.Semantic.DeepEqual(was.Status.Configuration, is.Status.Configuration) ||
			!equality.Semantic.DeepEqual(was.Status.Rollout, is.Status.Rollout) ||
			!equality.Semantic.DeepEqual(was.Status.Prebuild, is.Status.Prebuild) ||
			!equality.Semantic.DeepEqual(was.Status.Conditions, is.Status.Conditions)
	}}
}
