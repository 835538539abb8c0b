package rollout

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/collect"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
)

// The indexes of HostMachines by the name of their Node and by their instance, which the controllers that
// select configurations and make machines register.
const (
	byNodeName = "nodeName"
	byInstance = "instanceID"
)

// SetupWithManager makes a manager run the reconciler, for configurations, their versions, machines, and
// the Nodes of another cluster.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, nodes cluster.Cluster, news *inventory.Hub, o controller.Options) error {
	ofNode := collect.Events(collect.Soon, handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, n *corev1.Node) []reconcile.Request {
		return r.with(ctx, byNodeName, n.Name)
	}))
	ofMachine := collect.Events(collect.Soon, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		m, ok := o.(*hostsv1.HostMachine)
		if !ok {
			return nil
		}
		return concerned(m)
	}))
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hosts-rollout").
		For(&hostsv1.MachineConfiguration{}, builder.WithPredicates(configurationChanged())).
		Owns(&hostsv1.MachineConfigurationVersion{}, builder.WithPredicates(versionChanged())).
		Watches(&hostsv1.HostMachine{}, ofMachine, builder.WithPredicates(machineChanged())).
		WatchesRawSource(source.Kind(nodes.GetCache(), &corev1.Node{}, ofNode, nodeChanged())).
		WatchesRawSource(news.Source(collect.Later, r.ofShards)).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
	if err != nil {
		return fmt.Errorf("controller hosts-rollout: %w", err)
	}
	return nil
}

// concerned returns the configurations whose rollouts a machine has to do with.
func concerned(m *hostsv1.HostMachine) []reconcile.Request {
	var all []reconcile.Request
	if c := m.Status.Configuration; c != nil && c.Desired != nil {
		all = append(all, inventory.Request(string(c.Desired.Name))...)
	}
	if m.Status.Rollout != nil {
		all = append(all, inventory.Request(string(m.Status.Rollout.Name))...)
	}
	return all
}

// with returns the configurations of the machines that have a value in an index.
func (r *Reconciler) with(ctx context.Context, index, value string) []reconcile.Request {
	var list hostsv1.HostMachineList
	if err := r.opts.Client.List(ctx, &list, client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache ends with the process
	}
	var all []reconcile.Request
	for i := range list.Items {
		all = append(all, concerned(&list.Items[i])...)
	}
	return all
}

// ofShards returns the configurations that changes of the shards concern.
func (r *Reconciler) ofShards(ctx context.Context, changes []inventory.ShardChange) []reconcile.Request {
	var all []reconcile.Request
	whole := false
	for _, c := range changes {
		switch c.Kind {
		case inventory.InstanceChanged, inventory.InstanceGone:
			all = append(all, r.with(ctx, byInstance, c.Instance)...)
		case inventory.ShardChanged:
			whole = true
		default: // nothing follows from it
		}
	}
	if !whole {
		return all
	}
	var list hostsv1.MachineConfigurationList
	if err := r.opts.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return all // the cache ends with the process
	}
	for i := range list.Items {
		all = append(all, inventory.Request(list.Items[i].Name)...)
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
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, number,
		status.Rewritten(func(c *hostsv1.MachineConfiguration) []metav1.Condition { return c.Status.Conditions }, hostsv1.ConditionRollingOut))
}

// versionChanged are the changes of versions that anything follows from, counters left out.
func versionChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok1 := e.ObjectOld.(*hostsv1.MachineConfigurationVersion)
		is, ok2 := e.ObjectNew.(*hostsv1.MachineConfigurationVersion)
		bad := func(v *hostsv1.MachineConfigurationVersion) bool {
			return meta.IsStatusConditionFalse(v.Status.Conditions, hostsv1.ConditionHealthy)
		}
		return !ok1 || !ok2 || was.Generation != is.Generation || was.Status.Hash != is.Status.Hash || bad(was) != bad(is) ||
			was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()
	}}
}

// machineChanged are the changes of machines that anything follows from: what hosts report is not.
func machineChanged() predicate.Predicate {
	equal := equality.Semantic.DeepEqual
	conditions := []metav1.Condition{
		{Type: hostsv1.ConditionReady}, {Type: hostsv1.ConditionRepaveFailed}, {Type: hostsv1.ConditionAgentConnected}, {Type: hostsv1.ConditionPreflightPassed},
	}
	stage := func(m *hostsv1.HostMachine) string {
		if m.Status.Repave == nil {
			return ""
		}
		return m.Status.Repave.Stage
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok1 := e.ObjectOld.(*hostsv1.HostMachine)
		is, ok2 := e.ObjectNew.(*hostsv1.HostMachine)
		return !ok1 || !ok2 || was.Generation != is.Generation || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
			!equal(was.Status.Configuration, is.Status.Configuration) || !equal(was.Status.Rollout, is.Status.Rollout) ||
			!equal(was.Status.NodeRef, is.Status.NodeRef) || !equal(was.Status.Hold, is.Status.Hold) || stage(was) != stage(is) ||
			!equal(status.Select(was.Status.Conditions, conditions), status.Select(is.Status.Conditions, conditions))
	}}
}

// nodeChanged are the changes of Nodes that anything follows from.
func nodeChanged() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
		was, is := e.ObjectOld, e.ObjectNew
		return was.UID != is.UID || ready(was) != ready(is) ||
			was.Annotations[infrav1.AnnotationDrainPhase] != is.Annotations[infrav1.AnnotationDrainPhase] ||
			was.Annotations[infrav1.AnnotationDrainRequest] != is.Annotations[infrav1.AnnotationDrainRequest]
	}}
}

func ready(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}
