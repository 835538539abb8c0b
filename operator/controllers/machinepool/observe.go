package machinepool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/indexes"
	"nstance.dev/operator/inventory"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// observe puts together what is known of one pool. reader is the cache, or the API server.
func (r *Reconciler) observe(ctx context.Context, reader client.Reader, key client.ObjectKey) (state, error) {
	st := state{
		pool: &infrav1.NstanceMachinePool{}, asMachines: r.AsMachines, redirectAfter: r.RedirectAfter,
		memoryShare: r.MemoryShare, shards: map[string]shard{},
	}
	if err := reader.Get(ctx, key, st.pool); err != nil {
		return state{}, err
	}
	for _, look := range []func(context.Context, client.Reader, *state) error{
		observeMachinePool, observeOtherPools, observeShardGroups, observeMachines, observePause,
	} {
		if err := look(ctx, reader, &st); err != nil {
			return state{}, fmt.Errorf("look at pool %s: %w", key.Name, err)
		}
	}
	for _, name := range st.pool.Spec.Shards {
		st.shards[name] = r.readInventory(name, st)
	}
	for name := range st.shardGroups {
		st.shards[name] = r.readInventory(name, st)
	}
	st.staleMachines = r.staleMachines(st)
	return st, nil
}

// staleMachines returns the Machines whose instance is gone and that have no NstanceMachine.
// Cluster API makes a Machine a moment after it has seen an NstanceMachine, which may have ended
// with its instance by then; and nobody but Cluster API would ever look at that Machine again.
func (r *Reconciler) staleMachines(st state) []string {
	var all []string
	for id, machine := range st.machines {
		if st.infraMachines[id] == nil && machine.DeletionTimestamp.IsZero() && r.gone(id, st.shards) {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// gone is whether each of the shards is known not to have an instance.
func (r *Reconciler) gone(id string, shards map[string]shard) bool {
	for name := range shards {
		presence := inventory.Unknown
		r.Inventory.Read(name, func(known *inventory.Shard) { presence = known.Presence(id) })
		if presence != inventory.Gone {
			return false
		}
	}
	return len(shards) > 0
}

// observeMachinePool finds the MachinePool of the pool, and the others that refer to it.
func observeMachinePool(ctx context.Context, reader client.Reader, st *state) error {
	claims, err := capi.MachinePools(ctx, reader, st.pool)
	if err != nil || len(claims) == 0 {
		return err
	}
	for _, claim := range claims {
		switch {
		case st.removedMachinePool == nil && removalBegun(claim):
			st.removedMachinePool = claim.DeepCopy()
		case st.machinePool == nil:
			st.machinePool = claim.DeepCopy()
		default:
			st.otherMachinePools = append(st.otherMachinePools, claim.Name)
		}
	}
	return nil
}

// observeOtherPools finds the pools that had the group on one of the shards before this one.
func observeOtherPools(ctx context.Context, reader client.Reader, st *state) error {
	var list infrav1.NstanceMachinePoolList
	if err := reader.List(ctx, &list, client.InNamespace(st.pool.Namespace), indexes.OfGroup(st.pool.Spec.Group), client.UnsafeDisableDeepCopy); err != nil { // only read
		return err
	}
	for i := range list.Items {
		if other := &list.Items[i]; first(other, st.pool) && overlap(other, st.pool) {
			st.otherPools = append(st.otherPools, other.Name)
		}
	}
	slices.Sort(st.otherPools)
	return nil
}

func overlap(a, b *infrav1.NstanceMachinePool) bool {
	return a.Name != b.Name && a.Spec.Group == b.Spec.Group &&
		slices.ContainsFunc(a.Spec.Shards, func(shard string) bool { return slices.Contains(b.Spec.Shards, shard) })
}

// first is whether a pool came before another one: the name decides between two of the
// same second.
func first(a, b *infrav1.NstanceMachinePool) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// observeShardGroups finds the NstanceShardGroups of the pool, and those of its group that belong to
// nobody.
func observeShardGroups(ctx context.Context, reader client.Reader, st *state) error {
	var list infrav1.NstanceShardGroupList
	err := reader.List(ctx, &list, client.InNamespace(st.pool.Namespace), client.MatchingLabels{infrav1.LabelGroup: st.pool.Spec.Group}, indexes.OfGroup(st.pool.Spec.Group))
	if err != nil {
		return err
	}
	st.shardGroups = map[string]*infrav1.NstanceShardGroup{}
	for i := range list.Items {
		shardGroup := &list.Items[i]
		owner := metav1.GetControllerOf(shardGroup)
		free := owner == nil && slices.Contains(st.pool.Spec.Shards, shardGroup.Spec.Shard)
		if free || owner != nil && owner.UID == st.pool.UID {
			st.shardGroups[shardGroup.Spec.Shard] = shardGroup
		}
	}
	return nil
}

// observeMachines finds the Machines and NstanceMachines of the pool.
func observeMachines(ctx context.Context, reader client.Reader, st *state) error {
	var infraMachines infrav1.NstanceMachineList
	err := reader.List(ctx, &infraMachines, client.InNamespace(st.pool.Namespace), client.MatchingLabels{infrav1.LabelGroup: st.pool.Spec.Group}, indexes.OfGroup(st.pool.Spec.Group))
	if err != nil {
		return err
	}
	st.infraMachines = map[string]*infrav1.NstanceMachine{}
	for i := range infraMachines.Items {
		infraMachine := &infraMachines.Items[i]
		if infraMachine.Spec.Mode == infrav1.MachineManaged && owned(infraMachine, st.pool) {
			st.infraMachines[infraMachine.Spec.InstanceID] = infraMachine
		}
	}
	st.machines = map[string]*clusterv1.Machine{}
	for _, machinePool := range []*clusterv1.MachinePool{st.removedMachinePool, st.machinePool} {
		if machinePool == nil {
			continue
		}
		var machines clusterv1.MachineList
		err = reader.List(ctx, &machines, client.InNamespace(st.pool.Namespace), client.MatchingLabels{
			clusterv1.MachinePoolNameLabel: capi.PoolLabel(machinePool.Name),
		}, indexes.OfMachinePool(capi.PoolLabel(machinePool.Name)))
		if err != nil {
			return err
		}
		for i := range machines.Items {
			st.machines[machines.Items[i].Spec.InfrastructureRef.Name] = &machines.Items[i]
		}
	}
	return nil
}

func owned(object client.Object, pool *infrav1.NstanceMachinePool) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == pool.UID })
}

// observePause finds out whether the pool is to be left alone.
func observePause(ctx context.Context, reader client.Reader, st *state) error {
	var err error
	if st.paused, err = capi.Paused(ctx, reader, st.pool); err != nil || st.paused || st.machinePool == nil {
		return err
	}
	_, st.paused = st.machinePool.Annotations[clusterv1.PausedAnnotation]
	if !st.paused && st.pool.Labels[clusterv1.ClusterNameLabel] == "" { // Cluster API labels it later
		var cluster clusterv1.Cluster
		err = reader.Get(ctx, client.ObjectKey{Namespace: st.pool.Namespace, Name: st.machinePool.Spec.ClusterName}, &cluster)
		st.paused = err == nil && cluster.Spec.Paused != nil && *cluster.Spec.Paused
		if apierrors.IsNotFound(err) {
			err = nil
		}
	}
	return err
}

// readInventory returns what is known of one shard. An instance that is shown as a machine
// counts until its shard says that it is gone, also if the shard has not said anything yet.
func (r *Reconciler) readInventory(name string, st state) shard {
	s := shard{gone: map[string]bool{}, held: map[string]time.Time{}, coolOff: r.CoolOff.Of(inventory.ShardGroup{Shard: name, Group: st.pool.Spec.Group})}
	s.connection, s.configured = r.Connection(name)
	r.Inventory.Read(name, func(known *inventory.Shard) {
		s.synced, s.group = known.State(), known.Group(st.pool.Spec.Group)
		for _, in := range known.Instances(st.pool.Spec.Group) {
			switch managed, known := inventory.IsManaged(in, st.infraMachines[in.GetInstanceId()] != nil); {
			case !known:
				s.unclear++
			case managed:
				s.instances = append(s.instances, in)
				if until := inventory.HeldUntil(in, r.Now()); !until.IsZero() {
					s.held[in.GetInstanceId()] = until
				}
			}
		}
		for _, id := range slices.Sorted(maps.Keys(st.infraMachines)) {
			if infraMachine := st.infraMachines[id]; infraMachine.Spec.Shard == name && known.Presence(id) == inventory.Unknown {
				s.instances = append(s.instances, lastKnown(infraMachine))
			}
		}
		if shardGroup := st.shardGroups[name]; shardGroup != nil {
			for _, id := range shardGroup.Spec.Retiring {
				s.gone[id] = known.Presence(id) == inventory.Gone
			}
		}
	})
	return s
}

// lastKnown is an instance as its NstanceMachine describes it.
func lastKnown(infraMachine *infrav1.NstanceMachine) *nstancev1.InstanceStatus {
	return &nstancev1.InstanceStatus{
		InstanceId: infraMachine.Spec.InstanceID, Group: infraMachine.Spec.GroupRef.Name, ProviderUri: infraMachine.Spec.ProviderID,
		Status: inventory.StatusUnknown,
	}
}
