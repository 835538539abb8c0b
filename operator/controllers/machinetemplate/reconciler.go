package machinetemplate

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/collect"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
)

// Reconciler keeps the statuses of templates. All fields are required; it is safe for
// concurrent use.
type Reconciler struct {
	Client client.Client
	// Shards returns the names of the configured shards, in their order.
	Shards    func() []string
	Inventory *inventory.Store
	// MemoryShare is as in Status.
	MemoryShare float64
	Now         func() time.Time
}

var manager = status.FieldManager("templates")

// SetupWithManager makes a manager run the reconciler for what changes in the cluster and
// in the shards.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, news *inventory.Hub, o controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("templates").
		For(&infrav1.NstanceMachineTemplate{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster), builder.WithPredicates(capi.ClusterChanged())).
		WatchesRawSource(news.Source(collect.Later, r.concerned)).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
}

// Reconcile says what is known of one template.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var t infrav1.NstanceMachineTemplate
	if err := r.Client.Get(ctx, request.NamespacedName, &t); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	paused, err := capi.Paused(ctx, r.Client, &t)
	if err != nil || !t.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, err
	}
	next := pausedStatus(&t, r.Now())
	if !paused {
		next = Status(&t, r.hear(t.Spec.Template.Spec.GroupRef.Name), r.MemoryShare, r.Now())
	}
	if equality.Semantic.DeepEqual(t.Status, next) {
		return ctrl.Result{}, nil
	}
	object := &infrav1.NstanceMachineTemplate{ObjectMeta: t.ObjectMeta, Status: next}
	if err := status.Apply(ctx, r.Client, object, manager); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write the status of NstanceMachineTemplate %s: %w", t.Name, err)
	}
	return ctrl.Result{}, nil
}

// ofCluster returns the templates of a Cluster that changed: it may have been paused.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	var list infrav1.NstanceMachineTemplateList
	err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy, client.InNamespace(cluster.GetNamespace()),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()})
	if err != nil {
		return nil // the cache ends with the process
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// hear takes together what the shards say of a group.
func (r *Reconciler) hear(group string) []Shard {
	var all []Shard
	for _, name := range r.Shards() {
		s := Shard{Name: name}
		r.Inventory.Read(name, func(known *inventory.Shard) {
			s.Listed, s.Group = known.State().GroupsSynced, known.Group(group)
		})
		all = append(all, s)
	}
	return all
}

// concerned returns the templates of groups that changed, or all if a shard itself did.
func (r *Reconciler) concerned(ctx context.Context, changes []inventory.ShardChange) []reconcile.Request {
	groups, all := map[string]bool{}, false
	for _, c := range changes {
		switch c.Kind {
		case inventory.GroupChanged, inventory.GroupGone:
			groups[c.Group] = true
		case inventory.ShardChanged:
			all = true
		}
	}
	if len(groups) == 0 && !all {
		return nil
	}
	var list infrav1.NstanceMachineTemplateList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache ends with the process
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if t := &list.Items[i]; all || groups[t.Spec.Template.Spec.GroupRef.Name] {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(t)})
		}
	}
	return requests
}
