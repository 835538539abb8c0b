package machinepool

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/capi/capacity"
	"nstance.dev/operator/inventory"
)

// Annotations by which the cluster autoscaler takes a MachinePool for one of its node
// groups (cluster-autoscaler, provider clusterapi).
const (
	autoscalerMin = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	autoscalerMax = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
)

// offer is what the next Node of the pool is made from; false: not every shard has said
// what it has. Then what was said before stands: an autoscaler that is told less for a
// moment would take the pool for another one.
func (st state) offer() (capacity.Pool, bool) {
	pool := capacity.Pool{
		Group: st.pool.Spec.Group, Shards: st.pool.Spec.Shards,
		Template: st.pool.Spec.NodeTemplate, Learned: st.pool.Status.Learned, MemoryShare: st.memoryShare,
	}
	for _, name := range st.pool.Spec.Shards {
		group := st.shards[name].group
		if group == nil {
			return capacity.Pool{}, false
		}
		pool.Parts = append(pool.Parts, capacity.PartOf(group))
		pool.Nodes = append(pool.Nodes, st.nodes(name)...)
	}
	pool.Learned = capacity.Learn(pool)
	return pool, true
}

// nodes are the Nodes of the instances on one shard, as the machines that show these tell.
func (st state) nodes(name string) []capacity.Node {
	var all []capacity.Node
	for _, in := range st.shards[name].instances {
		infraMachine := st.infraMachines[in.GetInstanceId()]
		if infraMachine == nil || infraMachine.Status.Allocatable == nil || !inventory.HasDetails(in) {
			continue
		}
		all = append(all, capacity.Node{
			InstanceType: in.GetInstanceType(), Template: in.GetTemplate(), Ready: true, // it was, when that was written
			Allocatable: corev1.ResourceList(infraMachine.Status.Allocatable),
		})
	}
	return all
}

// describe says on the MachinePool what only a MachinePool can say: to the autoscaler, what
// Nodes will be like, and to the policy that guards static groups, whether this is one.
// What a user has set there stays.
func (st state) describe(machinePool *clusterv1.MachinePool) (changed bool) {
	if pool, known := st.offer(); known {
		change := capacity.Keep(machinePool.Annotations, capacity.Annotations(pool))
		for key, value := range change.Set {
			capi.Annotate(machinePool, key, value)
		}
		for _, key := range change.Remove {
			capi.Annotate(machinePool, key, "")
		}
		changed = !change.Empty()
	}
	static := st.anyStatic()
	if (machinePool.Labels[infrav1.LabelStatic] == "true") == static {
		return changed
	}
	if static {
		metav1.SetMetaDataLabel(&machinePool.ObjectMeta, infrav1.LabelStatic, "true")
	} else {
		delete(machinePool.Labels, infrav1.LabelStatic)
	}
	return true
}

// anyStatic is whether a server's configuration has the group on any shard.
func (st state) anyStatic() bool {
	for name := range st.shardGroups {
		if st.static(name) {
			return true
		}
	}
	return false
}

// describeMachinePool writes that.
func (r *Reconciler) describeMachinePool(ctx context.Context, st *state) error {
	if st.machinePool == nil || len(st.otherPools) > 0 {
		return nil
	}
	next := st.machinePool.DeepCopy()
	if !st.describe(next) {
		return nil
	}
	// Somebody may set one of the same annotations just now.
	patch := client.MergeFromWithOptions(st.machinePool, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, next, patch, infra); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("describe the nodes of MachinePool %s: %w", next.Name, err)
	}
	st.machinePool = next
	return nil
}

// autoscaled reports whether the MachinePool says how small and how large it may be.
func (st state) autoscaled() bool {
	if st.machinePool == nil {
		return false
	}
	_, hasMin := st.machinePool.Annotations[autoscalerMin]
	_, hasMax := st.machinePool.Annotations[autoscalerMax]
	return hasMin && hasMax
}
