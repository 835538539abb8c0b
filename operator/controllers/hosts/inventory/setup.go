package inventory

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/collect"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
)

// IndexField is the index of HostMachines by the instance that they stand for.
const IndexField = "instanceID"

// Index is the value of a HostMachine in the index.
func Index(o client.Object) []string {
	m, ok := o.(*hostsv1.HostMachine)
	switch {
	case !ok:
	case m.Spec.Instance != nil:
		return []string{string(m.Spec.Instance.ID)}
	case m.Status.Provisioning != nil && m.Status.Provisioning.InstanceID != "":
		return []string{string(m.Status.Provisioning.InstanceID)}
	}
	return nil
}

// SetupWithManager makes a manager run the reconciler.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, news *inventory.Hub, o controller.Options) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &hostsv1.HostMachine{}, IndexField, Index); err != nil {
		return fmt.Errorf("index HostMachines by %s: %w", IndexField, err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hosts-inventory").
		For(&hostsv1.HostMachine{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}, saidOfHost()))).
		WatchesRawSource(r.instances(news)).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
	if err != nil {
		return fmt.Errorf("controller hosts-inventory: %w", err)
	}
	return nil
}

// saidOfHost are changes of the condition that is written here.
func saidOfHost() predicate.Predicate {
	return status.Rewritten(func(m *hostsv1.HostMachine) []metav1.Condition { return m.Status.Conditions }, hostsv1.ConditionProvisioned)
}

// instances is the source of the instances of all shards: those that are known when it starts, which have no
// HostMachine yet that would be looked at, and then those that changes concern.
func (r *Reconciler) instances(news *inventory.Hub) source.Source {
	changes := news.Source(collect.Soon, r.Concerned)
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		if err := changes.Start(ctx, queue); err != nil {
			return fmt.Errorf("changes of instances: %w", err)
		}
		for _, shard := range r.opts.Inventory.Names() {
			for _, request := range r.known(shard, "") {
				queue.Add(request)
			}
		}
		return nil
	})
}

// Concerned returns the instances that changes of the shards concern.
func (r *Reconciler) Concerned(ctx context.Context, changes []inventory.ShardChange) []reconcile.Request {
	var all []reconcile.Request
	known := map[[2]string]bool{} // shards and groups that stand in the list as a whole
	for _, c := range changes {
		switch c.Kind {
		case inventory.InstanceChanged, inventory.InstanceGone:
			all = append(all, inventory.Request(c.Instance)...)
		case inventory.GroupChanged, inventory.ShardChanged:
			if key := [2]string{c.Shard, c.Group}; !known[key] {
				known[key] = true
				all = append(all, r.ofShard(ctx, c.Shard, c.Group)...)
			}
		default: // nothing follows from it
		}
	}
	return all
}

// ofShard returns the instances of a shard, or of one group of it, that have or may get a HostMachine: those
// that the shard has, and for a whole shard those that it may not have any more.
func (r *Reconciler) ofShard(ctx context.Context, shard, group string) []reconcile.Request {
	all := r.known(shard, group)
	if group != "" {
		return all
	}
	var list hostsv1.HostMachineList
	if err := r.opts.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return all // the cache ends with the process
	}
	for i := range list.Items {
		if in := list.Items[i].Spec.Instance; in != nil && string(in.Shard) == shard {
			all = append(all, inventory.Request(list.Items[i].Name)...)
		}
	}
	return all
}

// known are the instances of a shard, or of one group of it, that say that they have a node machine.
func (r *Reconciler) known(shard, group string) (all []reconcile.Request) {
	r.opts.Inventory.Read(shard, func(s *inventory.Shard) {
		for _, in := range s.Instances(group) {
			if in.GetMachine() != nil {
				all = append(all, inventory.Request(in.GetInstanceId())...)
			}
		}
	})
	return all
}
