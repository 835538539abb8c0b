package machinepool

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/controllers/machinepool/planner"
)

// machinePoolGrace is how long a new pool waits for its MachinePool before one is made for
// it: whoever makes both makes them one after the other.
const machinePoolGrace = 10 * time.Second

// missingMachinePool says what becomes of a pool without a MachinePool: one is to be made with so many
// replicas, or it is to be looked at again after wait, or, with neither, nothing. An
// imported pool gets its MachinePool from the import, which knows the sizes.
func (st state) missingMachinePool(now time.Time) (needed bool, replicas int32, wait time.Duration) {
	annotations := st.pool.Annotations
	_, imported := annotations[infrav1.AnnotationImportedFrom]
	switch {
	case st.machinePool != nil, st.removedMachinePool != nil, st.pool.Spec.Demand != nil, st.returning(), imported, len(st.otherPools) > 0,
		annotations[infrav1.AnnotationNoMachinePool] == "true":
		return false, 0, 0
	}
	if left := machinePoolGrace - now.Sub(st.pool.CreationTimestamp.Time); left > 0 {
		return false, 0, left
	}
	if n, err := strconv.ParseInt(annotations[infrav1.AnnotationInitialReplicas], 10, 32); err == nil && n >= 0 {
		return true, int32(n), 0
	}
	for _, name := range st.pool.Spec.Shards {
		if !st.shards[name].synced.GroupsSynced {
			return false, 0, machinePoolGrace
		}
		if shardGroup := st.shardGroups[name]; shardGroup != nil {
			replicas += shardGroup.Share()
			continue
		}
		replicas += int32(min(st.size(name), planner.MaxSize))
	}
	return true, replicas, 0
}

// makeMachinePool makes the MachinePool of a pool that has none, and says when to look
// again.
func (r *Reconciler) makeMachinePool(ctx context.Context, st *state) (time.Duration, error) {
	needed, replicas, wait := st.missingMachinePool(r.Now())
	if !needed {
		return wait, nil
	}
	tries := []string{st.pool.Name, capi.Taken(st.pool.Name)}
	for _, name := range tries {
		err := r.Client.Create(ctx, capi.MachinePool(st.pool, name, r.Names.Cluster, replicas), infra)
		switch {
		case err == nil:
			ctrl.LoggerFrom(ctx).Info("created MachinePool", "group", st.pool.Spec.Group, "machine_pool", name, "replicas", replicas)
			r.Events.Eventf(st.pool, nil, corev1.EventTypeNormal, "MachinePoolCreated", "Create", "MachinePool %s with %d replicas", name, replicas)
			return 0, nil
		case apierrors.IsAlreadyExists(err):
			var there clusterv1.MachinePool
			err := r.Live.Get(ctx, client.ObjectKey{Namespace: st.pool.Namespace, Name: name}, &there)
			switch {
			case client.IgnoreNotFound(err) != nil:
				return 0, fmt.Errorf("look at MachinePool %s: %w", name, err)
			case err != nil, capi.Refers(&there, st.pool): // gone again, or ours: the cache is behind
				return time.Second, nil //nolint:nilerr // the next pass sees which
			}
		default:
			return 0, fmt.Errorf("make MachinePool %s: %w", name, err)
		}
	}
	st.nameTaken = tries
	return machinePoolGrace, nil
}
