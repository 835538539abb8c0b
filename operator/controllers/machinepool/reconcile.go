package machinepool

import (
	"context"
	"fmt"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/status"
	"nstance.dev/operator/telemetry"
	"nstance.dev/operator/unsent"
)

// Reconcile makes one pass over one pool.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	st, err := r.observe(ctx, r.Client, request.NamespacedName)
	if err != nil {
		r.sizeDone(request.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if st.paused || !st.pool.DeletionTimestamp.IsZero() { // no size goes on
		r.sizeDone(request.NamespacedName)
	}
	if st.paused {
		return ctrl.Result{}, r.publishPaused(ctx, st)
	}
	if !st.pool.DeletionTimestamp.IsZero() {
		return r.end(ctx, st)
	}
	if err := r.ensureFinalizer(ctx, st.pool); err != nil {
		return ctrl.Result{}, err
	}
	p := decide(st, r.Now())
	if p.needsLiveRead(st) {
		if st, err = r.observe(ctx, r.Live, request.NamespacedName); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		p = decide(st, r.Now())
	}
	if st.paused { // since the first look
		return ctrl.Result{}, r.publishPaused(ctx, st)
	}
	again, err := r.actTraced(ctx, &st, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.sizeDone(request.NamespacedName)
	// The sizes of all pools first: what else there is to write, a later pass works out anew.
	if wait := r.Unsent.Defer(unsent.Pool(request.NamespacedName)); wait > 0 {
		return status.Deferred(wait, sooner(again, until(p.again, r.Now()))), nil
	}
	more, err := r.createInfraMachines(ctx, st)
	if err != nil {
		return ctrl.Result{}, err
	}
	if more {
		again = sooner(again, time.Second)
	}
	if err := r.publish(ctx, st, p); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: sooner(again, until(p.again, r.Now()))}, nil
}

// sizeDone notes that a pool's size stands in its shard groups, or never will.
func (r *Reconciler) sizeDone(pool client.ObjectKey) { r.Unsent.Done(unsent.Pool(pool), math.MaxInt64) }

// actTraced carries a plan out. Where it changes what shards are to have, that has a span, to
// which the calls belong that follow from it.
func (r *Reconciler) actTraced(ctx context.Context, st *state, p plan) (time.Duration, error) {
	if len(p.writes) == 0 && len(p.ends) == 0 {
		return r.act(ctx, st, p)
	}
	ctx, span := r.Traces.Begin(ctx, "machinepool.reconcile", client.ObjectKeyFromObject(st.pool), attribute.String("nstance.group", st.pool.Spec.Group))
	again, err := r.act(ctx, st, p)
	telemetry.End(span, err)
	return again, err
}

// ensureFinalizer puts the finalizer on, before there is anything that has to be taken down.
func (r *Reconciler) ensureFinalizer(ctx context.Context, pool *infrav1.NstanceMachinePool) error {
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
