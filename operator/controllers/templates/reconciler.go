package templates

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/apply"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/pause"
	"nstance.dev/operator/replan"
	"nstance.dev/operator/waking"
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

var manager = apply.Manager("templates")

// SetupWithManager makes a manager run the reconciler for what changes in the cluster and
// in the shards.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, news *waking.Hub, o controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("templates").
		For(&api.NstanceMachineTemplate{}).
		WatchesRawSource(news.Source(waking.Later, r.concerned)).
		WithOptions(o).
		Complete(replan.Reconciler(r))
}

// Reconcile says what is known of one template.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var t api.NstanceMachineTemplate
	if err := r.Client.Get(ctx, request.NamespacedName, &t); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if paused, err := pause.Of(ctx, r.Client, &t); err != nil || paused || !t.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, err
	}
	next := Status(&t, r.hear(t.Spec.Template.Spec.GroupRef.Name), r.MemoryShare, r.Now())
	if equality.Semantic.DeepEqual(t.Status, next) {
		return ctrl.Result{}, nil
	}
	object := &api.NstanceMachineTemplate{ObjectMeta: t.ObjectMeta, Status: next}
	if err := apply.Status(ctx, r.Client, object, manager); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write the status of NstanceMachineTemplate %s: %w", t.Name, err)
	}
	return ctrl.Result{}, nil
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
func (r *Reconciler) concerned(ctx context.Context, changes []waking.Change) []reconcile.Request {
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
	var list api.NstanceMachineTemplateList
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
