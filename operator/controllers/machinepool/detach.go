package machinepool

import (
	"context"
	"fmt"
	"maps"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
)

// removalBegun reports whether a removal has begun for a MachinePool.
func removalBegun(machinePool *clusterv1.MachinePool) bool {
	_, paused := machinePool.Annotations[clusterv1.PausedAnnotation]
	return paused && machinePool.Annotations[infrav1.AnnotationRetiredByPool] == "true"
}

// detach pauses the Machine of an instance that stays, so that Cluster API neither drains nor
// deletes its Node.
func (r *Reconciler) detach(ctx context.Context, machine *clusterv1.Machine) error {
	if machine == nil || isDetached(machine) {
		return nil
	}
	before := machine.DeepCopy()
	capi.Annotate(machine, clusterv1.PausedAnnotation, "true")
	capi.Annotate(machine, clusterv1.ExcludeNodeDrainingAnnotation, "true")
	capi.Annotate(machine, infrav1.AnnotationRetiredByPool, "true")
	if err := r.Client.Patch(ctx, machine, client.MergeFrom(before), infra); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("pause Machine %s: %w", machine.Name, err)
	}
	return nil
}

// isDetached reports whether detach has been called for a Machine.
func isDetached(machine *clusterv1.Machine) bool {
	_, paused := machine.Annotations[clusterv1.PausedAnnotation]
	return paused && machine.Annotations[infrav1.AnnotationRetiredByPool] == "true"
}

// freeMachines deletes the Machines that were detached and have nothing to show any more, and
// says whether there were any. Cluster API does not do what it does at the end of a Machine
// that is paused, so its finalizer is taken off here: after the deletion, for Cluster API
// puts it on every Machine that is not being deleted.
func (r *Reconciler) freeMachines(ctx context.Context, st state) (freed bool, err error) {
	for _, name := range slices.Sorted(maps.Keys(st.machines)) {
		machine := st.machines[name]
		if !isDetached(machine) || st.infraMachines[name] != nil {
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
