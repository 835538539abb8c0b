package machinepool

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// joinCluster makes a demand pool one of its Cluster, as Cluster API does with pools that have a MachinePool: with the
// label it is paused with the Cluster, with the owner it ends with it and is moved with it.
func joinCluster(ctx context.Context, r *Reconciler, st *state) error {
	if !st.demands() || st.machinePool != nil || st.removedMachinePool != nil || len(st.otherPools) > 0 {
		return nil
	}
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: st.pool.Namespace, Name: r.Names.Cluster}, cluster); err != nil {
		return client.IgnoreNotFound(err) // it is made by another controller, whose event comes
	}
	before := st.pool.DeepCopy()
	metav1.SetMetaDataLabel(&st.pool.ObjectMeta, clusterv1.ClusterNameLabel, cluster.Name)
	if err := controllerutil.SetOwnerReference(cluster, st.pool, r.Client.Scheme()); err != nil {
		return fmt.Errorf("own pool %s: %w", st.pool.Name, err)
	}
	if before.Labels[clusterv1.ClusterNameLabel] == cluster.Name && len(before.OwnerReferences) == len(st.pool.OwnerReferences) {
		return nil
	}
	if err := r.Client.Patch(ctx, st.pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), infra); err != nil {
		return fmt.Errorf("make pool %s one of Cluster %s: %w", st.pool.Name, cluster.Name, err)
	}
	return nil
}
