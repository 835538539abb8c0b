package machinepool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
)

// machinePoolRemoval takes the MachinePool off a pool, whose machines stay.
type machinePoolRemoval struct {
	*Reconciler
	st *state
}

// removalPace is how soon a MachinePool on its way out is looked at again.
const removalPace = time.Second

// begin takes the MachinePool out of the hands of Cluster API, which would delete the pool and all its
// machines with it.
func (r machinePoolRemoval) begin(ctx context.Context, why string) error {
	st := r.st
	next := st.machinePool.DeepCopy()
	capi.Annotate(next, clusterv1.PausedAnnotation, "true")
	capi.Annotate(next, infrav1.AnnotationRetiredByPool, "true")
	patch := client.MergeFromWithOptions(st.machinePool, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, next, patch, infra); err != nil {
		return fmt.Errorf("pause MachinePool %s: %w", next.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("removing MachinePool", "group", st.pool.Spec.Group, "machine_pool", next.Name, "reason", why)
	r.Events.Eventf(st.pool, next, corev1.EventTypeNormal, "MachinePoolRemoved", "Switch", "MachinePool %s is removed, and no machine with it: %s", next.Name, why)
	st.machinePool, st.removedMachinePool = nil, next
	return nil
}

// carryOn takes the next steps, and says when to look again; zero: there is none.
//
// Cluster API makes the MachinePool the owner of the pool, and of a Machine for each instance. So it is
// paused first, and nothing else is done until Cluster API has said that it is: a pass of its own
// that had begun before would write the owner back. Then nothing that is deleted owns anything that
// stays: the pool loses its owner, the Machines are paused and deleted with the
// NstanceMachines behind them, which leave their instances alone.
func (r machinePoolRemoval) carryOn(ctx context.Context) (time.Duration, error) {
	st := r.st
	if st.removedMachinePool == nil {
		why := st.machinePoolRemovalReason()
		if why == "" {
			return 0, nil
		}
		if err := r.begin(ctx, why); err != nil {
			return 0, err
		}
	}
	if !pauseConfirmed(st.removedMachinePool) {
		return removalPace, nil
	}
	if err := r.disown(ctx); err != nil {
		return 0, err
	}
	for _, id := range slices.Sorted(maps.Keys(st.infraMachines)) {
		if err := r.hideInstance(ctx, st.infraMachines[id]); err != nil {
			return 0, err
		}
	}
	freed, err := r.freeMachines(ctx, *st)
	if err != nil || freed || len(st.infraMachines) > 0 {
		return removalPace, err
	}
	return 0, r.deleteMachinePool(ctx)
}

// pauseConfirmed reports whether Cluster API has confirmed the pause of a MachinePool, or has never reconciled it.
func pauseConfirmed(machinePool *clusterv1.MachinePool) bool {
	return !controllerutil.ContainsFinalizer(machinePool, clusterv1.MachinePoolFinalizer) ||
		meta.IsStatusConditionTrue(machinePool.Status.Conditions, clusterv1.PausedCondition)
}

// disown takes the MachinePool off the owners of the pool: the pool would be deleted after it.
func (r machinePoolRemoval) disown(ctx context.Context) error {
	st := r.st
	before := st.pool.DeepCopy()
	st.pool.OwnerReferences = slices.DeleteFunc(st.pool.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == st.removedMachinePool.UID })
	if len(st.pool.OwnerReferences) == len(before.OwnerReferences) {
		return nil
	}
	if err := r.Client.Patch(ctx, st.pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), infra); err != nil {
		return fmt.Errorf("take MachinePool %s off the owners of pool %s: %w", st.removedMachinePool.Name, st.pool.Name, err)
	}
	return nil
}

// hideInstance deletes what shows an instance, which stays. An NstanceMachine that is deleted for another
// reason already ends its instance, and is waited for.
func (r machinePoolRemoval) hideInstance(ctx context.Context, infraMachine *infrav1.NstanceMachine) error {
	if !infraMachine.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := r.detach(ctx, r.st.machines[infraMachine.Name]); err != nil {
		return err
	}
	if infraMachine.Annotations[infrav1.AnnotationRetiredByPool] != "true" {
		before := infraMachine.DeepCopy()
		capi.Annotate(infraMachine, infrav1.AnnotationRetiredByPool, "true")
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, infraMachine, patch, infra); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if err := r.Client.Delete(ctx, infraMachine, client.Preconditions{UID: &infraMachine.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete NstanceMachine %s: %w", infraMachine.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("deleted NstanceMachine", "group", r.st.pool.Spec.Group, "instance", infraMachine.Name, "reason", "its pool is a demand pool; the instance stays")
	return nil
}

// deleteMachinePool deletes a MachinePool that owns nothing any more. Cluster API does not do what it does at
// the end of a MachinePool that is paused, so its finalizer is taken off here.
func (r machinePoolRemoval) deleteMachinePool(ctx context.Context) error {
	st := r.st
	machinePool := st.removedMachinePool
	if err := r.Client.Delete(ctx, machinePool, client.Preconditions{UID: &machinePool.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete MachinePool %s: %w", machinePool.Name, err)
	}
	before := machinePool.DeepCopy()
	if controllerutil.RemoveFinalizer(machinePool, clusterv1.MachinePoolFinalizer) {
		if err := r.Client.Patch(ctx, machinePool, client.MergeFrom(before), infra); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("take the finalizer off MachinePool %s: %w", machinePool.Name, err)
		}
	}
	ctrl.LoggerFrom(ctx).Info("deleted MachinePool", "group", st.pool.Spec.Group, "machine_pool", machinePool.Name, "reason", "nothing is left of it but the machines, which stay")
	st.removedMachinePool = nil
	return nil
}
