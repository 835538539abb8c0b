package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/status"
)

// pollPause is how often is looked when nothing happens.
const pollPause = 30 * time.Second

// Reconciler imports the groups of one tenant. All fields are required. It must not run
// twice at the same time.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server itself, past all caches.
	Live      client.Reader
	Namespace string
	// Cluster is the name of the Cluster, and of the NstanceCluster, that pools belong to.
	Cluster string
	// Settings are those of the configuration now in force, Shards the names of its
	// shards in order.
	Settings func() Settings
	Shards   func() []string
	// Connection returns the status of the connection to a shard; false: there is none.
	Connection func(shard string) (shards.Status, bool)
	Inventory  *inventory.Store
	Events     events.EventRecorder
	Now        func() time.Time

	mu   sync.Mutex
	told map[about]string // what was last reported
}

var manager = status.FieldManager("imports")

// Reconcile makes one pass over everything; what the request names does not matter.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var cluster infrav1.NstanceCluster
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Cluster}, &cluster); err != nil {
		return ctrl.Result{RequeueAfter: pollPause}, client.IgnoreNotFound(err)
	}
	if paused, err := capi.Paused(ctx, r.Client, &cluster); err != nil || paused {
		return ctrl.Result{}, err
	}
	w, steps, err := r.plan(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	failure := errors.Join(r.carryOut(ctx, w, steps), r.forget(ctx, w))
	next := complete(w.input, failure)
	if err := r.publish(ctx, &cluster, next); err != nil {
		return ctrl.Result{}, errors.Join(failure, err)
	}
	return ctrl.Result{RequeueAfter: pollPause}, failure
}

// plan decides, and where something is to be made, decides again from what the API server
// itself has.
func (r *Reconciler) plan(ctx context.Context) (world, []Step, error) {
	w, err := r.observe(ctx, r.Client)
	if err != nil {
		return world{}, nil, err
	}
	steps := Plan(w.input)
	if !slices.ContainsFunc(steps, makes) && !w.forgets() {
		return w, steps, nil
	}
	if w, err = r.observe(ctx, r.Live); err != nil {
		return world{}, nil, err
	}
	return w, Plan(w.input), nil
}

// forget takes groups that no longer count off the list of orphaned ones.
func (r *Reconciler) forget(ctx context.Context, w world) error {
	if !w.forgets() {
		return nil
	}
	before := w.cluster.DeepCopy()
	capi.Annotate(w.cluster, infrav1.AnnotationOrphanedGroups, capi.FormatOrphanedGroups(w.input.StillOrphaned()))
	err := r.Client.Patch(ctx, w.cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), infra)
	if apierrors.IsConflict(err) { // the next pass sees what changed
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("forget groups that are gone: %w", err)
	}
	return nil
}

// makes is whether a step makes an object.
func makes(step Step) bool {
	switch step.(type) {
	case CreatePool, CreateShardGroup, CreateMachinePool:
		return true
	}
	return false
}

// complete says how far the import is.
func complete(in Input, failure error) metav1.Condition {
	const done = infrav1.ConditionImportComplete
	gate := OpenGate(in.Shards)
	switch {
	case !in.Settings.Enabled && failure == nil:
		return status.True(done, infrav1.ReasonImportDisabled, "nothing is imported: the configuration says so")
	case !gate.Open:
		return status.False(done, infrav1.ReasonWaitingForShards, gate.Reason)
	case errors.Is(failure, errFeature):
		return status.False(done, infrav1.ReasonMachinePoolFeatureDisabled, failure.Error())
	case failure != nil:
		return status.False(done, infrav1.ReasonNotReady, failure.Error())
	}
	return status.True(done, infrav1.ReasonComplete, "")
}

// publish writes the condition, if it has changed.
func (r *Reconciler) publish(ctx context.Context, cluster *infrav1.NstanceCluster, condition metav1.Condition) error {
	next := status.Next(cluster.Status.Conditions, []metav1.Condition{condition}, cluster.Generation, r.Now())
	if equality.Semantic.DeepEqual(status.Select(cluster.Status.Conditions, next), next) {
		return nil
	}
	object := &infrav1.NstanceCluster{ObjectMeta: cluster.ObjectMeta, Status: infrav1.NstanceClusterStatus{Conditions: next}}
	if err := status.Apply(ctx, r.Client, object, manager); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("say how far the import is: %w", err)
	}
	return nil
}

// about is a pool and the reason of an event.
type about struct{ pool, reason string }

// report tells users something about a pool, once as long as it stays the same.
func (r *Reconciler) report(pool *infrav1.NstanceMachinePool, kind, reason, text string) {
	if pool == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told == nil {
		r.told = map[about]string{}
	}
	if key := (about{pool.Name, reason}); r.told[key] != text {
		r.told[key] = text
		r.Events.Eventf(pool, nil, kind, reason, "Import", "%s", text)
	}
}

// feature is what Cluster API's webhook says of MachinePools where they are switched off.
func feature(err error) bool {
	return err != nil && strings.Contains(err.Error(), "MachinePool feature flag")
}

const (
	normal  = corev1.EventTypeNormal
	warning = corev1.EventTypeWarning
)
