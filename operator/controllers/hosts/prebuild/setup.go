package prebuild

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
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
	"nstance.dev/operator/collect"
	"nstance.dev/operator/hosts/prebuild"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
)

// byInstance is the index of HostMachines by their instance, which the controller that makes them registers.
const byInstance = "instanceID"

// SetupWithManager makes a manager run the reconciler, for configurations, their versions, machines, and what hosts
// report.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, o controller.Options) error {
	ofMachine := collect.Events(collect.Soon, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		m, ok := o.(*hostsv1.HostMachine)
		if !ok {
			return nil
		}
		return concerned(m)
	}))
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hosts-prebuild").
		For(&hostsv1.MachineConfiguration{}, builder.WithPredicates(configurationChanged())).
		Owns(&hostsv1.MachineConfigurationVersion{}, builder.WithPredicates(versionChanged())).
		Watches(&hostsv1.HostMachine{}, ofMachine, builder.WithPredicates(machineChanged())).
		WatchesRawSource(r.opts.Reports.Source(r.ofHost)).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
	if err != nil {
		return fmt.Errorf("controller hosts-prebuild: %w", err)
	}
	return nil
}

// concerned returns the configurations whose preparation a machine has to do with.
func concerned(m *hostsv1.HostMachine) []reconcile.Request {
	var all []reconcile.Request
	if c := m.Status.Configuration; c != nil && c.Desired != nil {
		all = append(all, inventory.Request(string(c.Desired.Name))...)
	}
	if m.Status.Prebuild != nil {
		all = append(all, inventory.Request(string(m.Status.Prebuild.Name))...)
	}
	return all
}

// ofHost returns the configurations that the report of a host concerns: none where nothing is prepared.
func (r *Reconciler) ofHost(ctx context.Context, instance string) []reconcile.Request {
	var list hostsv1.HostMachineList
	if err := r.opts.Client.List(ctx, &list, client.MatchingFields{byInstance: instance}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache ends with the process
	}
	var all []reconcile.Request
	for i := range list.Items {
		for _, request := range concerned(&list.Items[i]) {
			c := &hostsv1.MachineConfiguration{}
			err := r.opts.Client.Get(ctx, request.NamespacedName, c, client.UnsafeDisableDeepCopy)
			if err == nil && c.Spec.Prebuild != nil && prebuild.On(c.Spec.Prebuild.Mode) || list.Items[i].Status.Prebuild != nil {
				all = append(all, request)
			}
		}
	}
	return all
}

// configurationChanged are the changes of a configuration that anything follows from.
func configurationChanged() predicate.Predicate {
	number := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok1 := e.ObjectOld.(*hostsv1.MachineConfiguration)
		is, ok2 := e.ObjectNew.(*hostsv1.MachineConfiguration)
		return !ok1 || !ok2 || (was.Status.PendingVersion == nil) != (is.Status.PendingVersion == nil) || was.UID != is.UID
	}}
	return predicate.Or(predicate.GenerationChangedPredicate{}, number,
		status.Rewritten(func(c *hostsv1.MachineConfiguration) []metav1.Condition { return c.Status.Conditions }, hostsv1.ConditionPrebuilt))
}

// versionChanged are the changes of versions that anything follows from, counters left out.
func versionChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok1 := e.ObjectOld.(*hostsv1.MachineConfigurationVersion)
		is, ok2 := e.ObjectNew.(*hostsv1.MachineConfigurationVersion)
		return !ok1 || !ok2 || was.Generation != is.Generation || was.Status.Hash != is.Status.Hash || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()
	}}
}

// machineChanged are the changes of machines that anything follows from: what hosts report of themselves is not.
func machineChanged() predicate.Predicate {
	equal := equality.Semantic.DeepEqual
	conditions := []metav1.Condition{{Type: hostsv1.ConditionRepaveFailed}, {Type: hostsv1.ConditionAgentConnected}, {Type: hostsv1.ConditionPreflightPassed}}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok1 := e.ObjectOld.(*hostsv1.HostMachine)
		is, ok2 := e.ObjectNew.(*hostsv1.HostMachine)
		return !ok1 || !ok2 || was.Generation != is.Generation || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
			!equal(was.Status.Configuration, is.Status.Configuration) || !equal(was.Status.Prebuild, is.Status.Prebuild) || !equal(was.Status.NodeRef, is.Status.NodeRef) ||
			!equal(status.Select(was.Status.Conditions, conditions), status.Select(is.Status.Conditions, conditions))
	}}
}
