package machinepool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
)

// endPoll is how often a pool on its way out is looked at when nothing happens.
const endPoll = 10 * time.Second

// end takes a pool down: all its parts at the same time, which end their groups, and what
// shows its instances with them. Each part decides for itself whether its group stays on
// the server. Then the finalizer comes off.
func (r *Reconciler) end(ctx context.Context, st state) (ctrl.Result, error) {
	if !slices.Contains(st.pool.Finalizers, infrav1.FinalizerMachinePool) {
		return ctrl.Result{}, nil
	}
	if err := r.leave(ctx, st); err != nil {
		return ctrl.Result{}, err
	}
	r.announce(st)
	for _, name := range slices.Sorted(maps.Keys(st.parts)) {
		if err := r.force(ctx, st, st.parts[name]); err != nil {
			return ctrl.Result{}, err
		}
		if err := r.endPart(ctx, st.parts[name]); err != nil {
			return ctrl.Result{}, err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(st.mirrors)) {
		if err := r.endMirror(ctx, st, st.mirrors[id]); err != nil {
			return ctrl.Result{}, err
		}
	}
	freed, err := r.freeMachines(ctx, st)
	if err != nil {
		return ctrl.Result{}, err
	}
	if freed || len(st.parts) > 0 || len(st.mirrors) > 0 {
		return ctrl.Result{RequeueAfter: endPoll}, r.publish(ctx, st, plan{})
	}
	before := st.pool.DeepCopy()
	controllerutil.RemoveFinalizer(st.pool, infrav1.FinalizerMachinePool)
	err = r.Client.Patch(ctx, st.pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("take the finalizer off pool %s: %w", st.pool.Name, err)
	}
	return ctrl.Result{}, nil
}

// leave writes down which groups stay on their shards without a pool, so that nobody makes
// a pool of them again.
func (r *Reconciler) leave(ctx context.Context, st state) error {
	if st.pool.Spec.DeletionPolicy != infrav1.DeletionOrphan {
		return nil
	}
	var cluster infrav1.NstanceCluster
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: st.pool.Namespace, Name: r.Cluster}, &cluster); err != nil {
		return client.IgnoreNotFound(err) // without one nothing is imported
	}
	before := cluster.DeepCopy()
	left := capi.ParsePlaces(cluster.Annotations[infrav1.AnnotationLeftGroups])
	for _, shard := range st.order() {
		left = append(left, capi.Place{Group: st.pool.Spec.Group, Shard: shard})
	}
	text := capi.FormatPlaces(left)
	if text == cluster.Annotations[infrav1.AnnotationLeftGroups] {
		return nil
	}
	capi.Annotate(&cluster, infrav1.AnnotationLeftGroups, text)
	err := r.Client.Patch(ctx, &cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), infra)
	if err != nil {
		return fmt.Errorf("write down that pool %s leaves its groups: %w", st.pool.Name, err)
	}
	return nil
}

// announce says once how many instances end with the pool: before its first part does.
func (r *Reconciler) announce(st state) {
	n := 0
	for name, part := range st.parts {
		if !part.DeletionTimestamp.IsZero() {
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

// endMirror deletes what shows an instance, where its group does not take it with it: the
// group stays on the server, or the shard has no part any more that could end it.
func (r *Reconciler) endMirror(ctx context.Context, st state, mirror *infrav1.NstanceMachine) error {
	stays := st.pool.Spec.DeletionPolicy == infrav1.DeletionOrphan || st.static(mirror.Spec.Shard) || st.pool.Status.IsStatic
	if st.parts[mirror.Spec.Shard] != nil && !stays {
		return nil
	}
	if stays {
		if err := r.letBe(ctx, st.machines[mirror.Name]); err != nil {
			return err
		}
	}
	if err := r.force(ctx, st, mirror); err != nil || !mirror.DeletionTimestamp.IsZero() {
		return err
	}
	if err := r.Client.Delete(ctx, mirror, client.Preconditions{UID: &mirror.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete NstanceMachine %s: %w", mirror.Name, err)
	}
	return nil
}

// letBe takes the Machine of an instance that stays out of Cluster API's hands, which would
// empty and delete the Node of every Machine that it ends.
func (r *Reconciler) letBe(ctx context.Context, machine *clusterv1.Machine) error {
	if machine == nil || isLeft(machine) {
		return nil
	}
	before := machine.DeepCopy()
	capi.Annotate(machine, clusterv1.PausedAnnotation, "true")
	capi.Annotate(machine, clusterv1.ExcludeNodeDrainingAnnotation, "true")
	capi.Annotate(machine, infrav1.AnnotationRetiredByPool, "true")
	if err := r.Client.Patch(ctx, machine, client.MergeFrom(before), infra); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take Machine %s out of the hands of Cluster API: %w", machine.Name, err)
	}
	return nil
}

// isLeft is whether letBe has been here.
func isLeft(machine *clusterv1.Machine) bool {
	_, paused := machine.Annotations[clusterv1.PausedAnnotation]
	return paused && machine.Annotations[infrav1.AnnotationRetiredByPool] == "true"
}

// freeMachines deletes the Machines that were let be and have nothing to show any more, and
// says whether there were any. Cluster API does not do what it does at the end of a Machine
// that is paused, so its finalizer is taken off here: after the deletion, for Cluster API
// puts it on every Machine that is not being deleted.
func (r *Reconciler) freeMachines(ctx context.Context, st state) (freed bool, err error) {
	for _, name := range slices.Sorted(maps.Keys(st.machines)) {
		machine := st.machines[name]
		if !isLeft(machine) || st.mirrors[name] != nil {
			continue
		}
		freed = true
		if err := r.Client.Delete(ctx, machine, client.Preconditions{UID: &machine.UID}); client.IgnoreNotFound(err) != nil {
			return true, fmt.Errorf("delete Machine %s: %w", machine.Name, err)
		}
		before := machine.DeepCopy()
		if !controllerutil.RemoveFinalizer(machine, clusterv1.MachineFinalizer) {
			continue
		}
		if err := r.Client.Patch(ctx, machine, client.MergeFrom(before), infra); client.IgnoreNotFound(err) != nil {
			return true, fmt.Errorf("take the finalizer off Machine %s: %w", machine.Name, err)
		}
	}
	return freed, nil
}

// force passes on that a person wants the pool removed without its servers.
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
