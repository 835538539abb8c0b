package machinepool

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/status"
)

// Reconciler keeps pools at their size. All fields are required unless said.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server itself, past all caches.
	Live client.Reader
	// Connection returns the status of the connection to a shard; false: it is not
	// configured.
	Connection func(shard string) (shards.Status, bool)
	Inventory  *inventory.Store
	CoolOff    *inventory.CoolOffs
	Events     events.EventRecorder
	Now        func() time.Time

	// Cluster is the name of the Cluster that new MachinePools belong to; ClusterID and
	// Tenant are those of the servers.
	Cluster, ClusterID, Tenant string
	// AsMachines: each instance of a pool is shown as a Machine.
	AsMachines bool
	// RedirectAfter is how long a shard counts as unreachable before growth goes elsewhere,
	// on top of the time that it takes until it does.
	RedirectAfter time.Duration
	// MemoryShare is the share of a machine's memory that is taken to be left for Pods; zero
	// means capacity.DefaultMemoryShare.
	MemoryShare float64
	// Redirected hears of each shard that growth went past, and why; nil: nobody does.
	Redirected func(group, shard string, why Redirection)
}

// Redirection is why a shard did not grow though it was its turn.
type Redirection string

// The values of Redirection.
const (
	RedirectedUnreachable Redirection = "unreachable" // the shard could not be seen for too long
	RedirectedCapacity    Redirection = "capacity"    // its provider had no room
	RedirectedQuota       Redirection = "quota"       // the account may have no more there
)

var manager = status.FieldManager("pool")

// Reconcile makes one pass over one pool.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	st, err := r.observe(ctx, r.Client, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if st.paused {
		return ctrl.Result{}, r.publishPaused(ctx, st)
	}
	if !st.pool.DeletionTimestamp.IsZero() {
		return r.end(ctx, st)
	}
	if err := r.hold(ctx, st.pool); err != nil {
		return ctrl.Result{}, err
	}
	p := decide(st, r.Now())
	if p.careful(st) {
		if st, err = r.observe(ctx, r.Live, request.NamespacedName); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		p = decide(st, r.Now())
	}
	if st.paused { // since the first look
		return ctrl.Result{}, r.publishPaused(ctx, st)
	}
	again, err := r.act(ctx, &st, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.publish(ctx, st, p); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: sooner(again, until(p.again, r.Now()))}, nil
}

// hold puts the finalizer on, before there is anything that has to be taken down.
func (r *Reconciler) hold(ctx context.Context, pool *infrav1.NstanceMachinePool) error {
	before := pool.DeepCopy()
	if !controllerutil.AddFinalizer(pool, infrav1.FinalizerMachinePool) {
		return nil
	}
	err := r.Client.Patch(ctx, pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("put the finalizer on pool %s: %w", pool.Name, err)
	}
	return nil
}

// until is how long it is until a time; zero for no time.
func until(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now), time.Millisecond)
}

// sooner is the shorter of two waits, where zero is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
