package machinepool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
)

// endPoll is how often a pool on its way out is looked at when nothing happens.
const endPoll = 10 * time.Second

// end takes a pool down: all its shard groups at the same time, which end their groups, and what
// shows its instances with them. Each shard group decides for itself whether its group stays on
// the server. Then the finalizer comes off.
func (r *Reconciler) end(ctx context.Context, st state) (ctrl.Result, error) {
	if !slices.Contains(st.pool.Finalizers, infrav1.FinalizerMachinePool) {
		return ctrl.Result{}, nil
	}
	if err := r.recordOrphanedGroups(ctx, st); err != nil {
		return ctrl.Result{}, err
	}
	r.announce(st)
	for _, name := range slices.Sorted(maps.Keys(st.shardGroups)) {
		if err := r.force(ctx, st, st.shardGroups[name]); err != nil {
			return ctrl.Result{}, err
		}
		if err := r.endShardGroup(ctx, st.shardGroups[name]); err != nil {
			return ctrl.Result{}, err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(st.infraMachines)) {
		if err := r.endInfraMachine(ctx, st, st.infraMachines[id]); err != nil {
			return ctrl.Result{}, err
		}
	}
	freed, err := r.freeMachines(ctx, st)
	if err != nil {
		return ctrl.Result{}, err
	}
	if freed || len(st.shardGroups) > 0 || len(st.infraMachines) > 0 {
		return ctrl.Result{RequeueAfter: endPoll}, r.publish(ctx, st, plan{})
	}
	if st.removedMachinePool != nil {
		if err := (machinePoolRemoval{r, &st}).deleteMachinePool(ctx); err != nil {
			return ctrl.Result{}, err
		}
	}
	before := st.pool.DeepCopy()
	controllerutil.RemoveFinalizer(st.pool, infrav1.FinalizerMachinePool)
	err = r.Client.Patch(ctx, st.pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("remove the finalizer of NstanceMachinePool %s: %w", st.pool.Name, err)
	}
	return ctrl.Result{}, nil
}

// recordOrphanedGroups writes down which groups stay on their shards without a pool, so that nobody makes
// a pool of them again.
func (r *Reconciler) recordOrphanedGroups(ctx context.Context, st state) error {
	if st.pool.Spec.DeletionPolicy != infrav1.DeletionOrphan {
		return nil
	}
	var cluster infrav1.NstanceCluster
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: st.pool.Namespace, Name: r.Names.Cluster}, &cluster); err != nil {
		return client.IgnoreNotFound(err) // without one nothing is imported
	}
	before := cluster.DeepCopy()
	orphaned := capi.ParseOrphanedGroups(cluster.Annotations[infrav1.AnnotationOrphanedGroups])
	for _, shard := range st.order() {
		orphaned = append(orphaned, capi.OrphanedGroup{Group: st.pool.Spec.Group, Shard: shard})
	}
	text := capi.FormatOrphanedGroups(orphaned)
	if text == cluster.Annotations[infrav1.AnnotationOrphanedGroups] {
		return nil
	}
	capi.Annotate(&cluster, infrav1.AnnotationOrphanedGroups, text)
	err := r.Client.Patch(ctx, &cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), infra)
	if err != nil {
		return fmt.Errorf("record orphaned groups of pool %s: %w", st.pool.Name, err)
	}
	return nil
}

// announce says once how many instances end with the pool: before its first shard group does.
func (r *Reconciler) announce(st state) {
	n := 0
	for name, shardGroup := range st.shardGroups {
		if !shardGroup.DeletionTimestamp.IsZero() {
			return
		}
		if !st.static(name) && st.pool.Spec.DeletionPolicy != infrav1.DeletionOrphan {
			n += len(st.shards[name].instances)
		}
	}
	if n > 0 {
		r.Events.Eventf(st.pool, nil, corev1.EventTypeNormal, "DeletingInstances", "Delete", "%d instances end with the pool", n)
	}
}

// endInfraMachine deletes what shows an instance, where its group does not take it with it: the
// group stays on the server, or the shard no longer has a shard group that could end it.
func (r *Reconciler) endInfraMachine(ctx context.Context, st state, infraMachine *infrav1.NstanceMachine) error {
	stays := st.pool.Spec.DeletionPolicy == infrav1.DeletionOrphan || st.static(infraMachine.Spec.Shard) || st.pool.Status.IsStatic
	if st.shardGroups[infraMachine.Spec.Shard] != nil && !stays {
		return nil
	}
	if stays {
		if err := r.detach(ctx, st.machines[infraMachine.Name]); err != nil {
			return err
		}
	}
	if err := r.force(ctx, st, infraMachine); err != nil || !infraMachine.DeletionTimestamp.IsZero() {
		return err
	}
	if err := r.Client.Delete(ctx, infraMachine, client.Preconditions{UID: &infraMachine.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete NstanceMachine %s: %w", infraMachine.Name, err)
	}
	return nil
}

// force passes on that a user wants the pool removed without its servers.
func (r *Reconciler) force(ctx context.Context, st state, object client.Object) error {
	const key = infrav1.AnnotationForceRemove
	if st.pool.Annotations[key] != "true" || object.GetAnnotations()[key] == "true" {
		return nil
	}
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object of an API server", object)
	}
	capi.Annotate(object, key, "true")
	return client.IgnoreNotFound(r.Client.Patch(ctx, object, client.MergeFrom(before), infra))
}
