package host

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/collect"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
)

// SetupWithManager makes a manager run the reconciler, for machines and for the Nodes of another cluster.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, nodes cluster.Cluster, news *inventory.Hub, o controller.Options) error {
	named := handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, n *corev1.Node) []reconcile.Request {
		return r.ofNode(ctx, n.Name)
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hosts-host").
		For(&hostsv1.HostMachine{}).
		WatchesRawSource(source.Kind(nodes.GetCache(), &corev1.Node{}, named, nodeChanged())).
		WatchesRawSource(r.opts.Reports.Source(r.ofInstance)).
		WatchesRawSource(news.Source(collect.Soon, r.concerned)).
		WatchesRawSource(r.brake.woken.Source()).
		Watches(&hostsv1.MachineConfiguration{}, handler.EnqueueRequestsFromMapFunc(r.brake.releasing)).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
	if err != nil {
		return fmt.Errorf("controller hosts-host: %w", err)
	}
	return nil
}

// ofNode returns the machines whose Node has a name.
func (r *Reconciler) ofNode(ctx context.Context, name string) []reconcile.Request {
	var list hostsv1.HostMachineList
	if err := r.opts.Client.List(ctx, &list, client.MatchingFields{byNodeName: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache ends with the process
	}
	return requests(list.Items)
}

// byInstance is the index of HostMachines by their instance, which the controller that makes them registers.
const byInstance = "instanceID"

// ofInstance returns the machines that stand for an instance.
func (r *Reconciler) ofInstance(ctx context.Context, id string) []reconcile.Request {
	var list hostsv1.HostMachineList
	if err := r.opts.Client.List(ctx, &list, client.MatchingFields{byInstance: id}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache ends with the process
	}
	return requests(list.Items)
}

// concerned returns the machines that changes of the shards concern.
func (r *Reconciler) concerned(ctx context.Context, changes []inventory.ShardChange) []reconcile.Request {
	var all []reconcile.Request
	whole := map[string]bool{}
	for _, c := range changes {
		switch c.Kind {
		case inventory.InstanceChanged, inventory.InstanceGone:
			all = append(all, r.ofInstance(ctx, c.Instance)...)
		case inventory.ShardChanged:
			whole[c.Shard] = true
		default: // nothing follows from it
		}
	}
	if len(whole) == 0 {
		return all
	}
	var list hostsv1.HostMachineList
	if err := r.opts.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return all // the cache ends with the process
	}
	for i := range list.Items {
		if in := list.Items[i].Spec.Instance; in != nil && whole[string(in.Shard)] {
			all = append(all, inventory.Request(list.Items[i].Name)...)
		}
	}
	return all
}

// releasing returns the machines that wait for the brake, if a configuration says that it lets go.
func (b *brake) releasing(_ context.Context, c client.Object) []reconcile.Request {
	if _, asked := c.GetAnnotations()[hostsv1.AnnotationReleaseBrake]; !asked {
		return nil
	}
	var all []reconcile.Request
	for _, name := range b.held() {
		all = append(all, inventory.Request(name)...)
	}
	return all
}

func requests(machines []hostsv1.HostMachine) []reconcile.Request {
	all := make([]reconcile.Request, 0, len(machines))
	for i := range machines {
		all = append(all, inventory.Request(machines[i].Name)...)
	}
	return all
}

// nodeChanged are the changes of Nodes that anything follows from: heartbeats alone are none.
func nodeChanged() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
		was, is := e.ObjectOld, e.ObjectNew
		return was.UID != is.UID || was.Status.NodeInfo.BootID != is.Status.NodeInfo.BootID || ready(was) != ready(is) ||
			!equality.Semantic.DeepEqual(was.Annotations, is.Annotations) || !equality.Semantic.DeepEqual(was.Labels, is.Labels)
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
