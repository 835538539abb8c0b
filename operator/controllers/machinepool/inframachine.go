package machinepool

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/inventory"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// maxInfraMachines is how many NstanceMachines one pass makes. The next pass comes a second
// later.
const maxInfraMachines = 50

// missingInfraMachines are the NstanceMachines that are to be made, one for each managed instance
// that has none, the oldest first; more says that there are others.
func (st state) missingInfraMachines() (missing []*infrav1.NstanceMachine, more bool) {
	if !st.asMachines || st.machinePool == nil || st.demands() || st.returning() || st.paused || len(st.otherPools) > 0 || !st.pool.DeletionTimestamp.IsZero() {
		return nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(st.shards)) {
		for _, in := range st.shards[name].instances {
			if in.GetStatus() == inventory.StatusTerminated || st.infraMachines[in.GetInstanceId()] != nil {
				continue
			}
			if len(missing) == maxInfraMachines {
				return missing, true
			}
			missing = append(missing, st.infraMachine(name, in))
		}
	}
	return missing, false
}

// infraMachine is the NstanceMachine that shows one instance. Cluster API makes a Machine of the
// same name for it, which becomes its controller; so the pool must not be. It is made with
// its finalizer: it may be deleted before the machine controller has seen it, and Cluster
// API would then delete the Node of an instance that nobody has ended.
func (st state) infraMachine(shard string, in *nstancev1.InstanceStatus) *infrav1.NstanceMachine {
	return &infrav1.NstanceMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: st.pool.Namespace, Name: in.GetInstanceId(),
			Labels: map[string]string{
				clusterv1.ClusterNameLabel:     st.machinePool.Spec.ClusterName,
				clusterv1.MachinePoolNameLabel: capi.PoolLabel(st.machinePool.Name),
				infrav1.LabelGroup:             st.pool.Spec.Group,
				infrav1.LabelShard:             shard,
				infrav1.LabelInstanceID:        in.GetInstanceId(),
				infrav1.LabelPool:              capi.Label(st.pool.Name),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: infrav1.GroupVersion.String(), Kind: infrav1.KindMachinePool, Name: st.pool.Name, UID: st.pool.UID,
			}},
			Finalizers: []string{infrav1.FinalizerMachine},
		},
		Spec: infrav1.NstanceMachineSpec{
			MachineSettings: infrav1.MachineSettings{GroupRef: infrav1.GroupReference{Name: st.pool.Spec.Group}, Shard: shard},
			Mode:            infrav1.MachineManaged, InstanceID: in.GetInstanceId(), ProviderID: in.GetProviderUri(),
		},
	}
}

// providerIDs are those of all instances of the pool that are not known to be gone, sorted.
// Each shard group keeps its own through outages. Until every shard group of the pool has heard its
// shard once, those that stood in the list stay: Cluster API deletes the Node of every id
// that leaves.
func (st state) providerIDs() []infrav1.ProviderID {
	var ids []string
	known := true
	for _, shardGroup := range st.shardGroups {
		ids = append(ids, shardGroup.Status.ProviderIDs...)
		known = known && shardGroup.Status.LastSyncTime != nil
	}
	removed := userRemovedShards(st.pool)
	for _, name := range st.pool.Spec.Shards {
		_, gone := removed[name]
		known = known && (st.shardGroups[name] != nil || gone)
	}
	if !known {
		ids = append(ids, st.pool.Spec.ProviderIDList...)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if st.machinePool == nil && st.removedMachinePool == nil { // no Node goes with an id that is taken off the list, and a demand pool may have more
		ids = ids[:min(len(ids), MaxReplicas)]
	}
	return ids
}

// tail is the part of a provider id by which an autoscaler knows a machine.
func tail(id string) string { return id[strings.LastIndex(id, "/")+1:] }

// duplicates are the provider ids of a pool whose tail some other id has too.
func duplicates(ids []string, all []string) []string {
	seen := map[string]int{}
	for _, id := range all {
		seen[tail(id)]++
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return seen[tail(id)] < 2 })
}
