package machinepool

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
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
		r.seeMachinePool, r.seeOthers, r.seeParts, r.seeMachines, r.seePause,
	} {
		if err := look(ctx, reader, &st); err != nil {
			return state{}, fmt.Errorf("look at pool %s: %w", key.Name, err)
		}
	}
	for _, name := range st.pool.Spec.Shards {
		st.shards[name] = r.hear(name, st)
	}
	for name := range st.parts {
		st.shards[name] = r.hear(name, st)
	}
	st.hollow = r.hollow(st)
	return st, nil
}

// hollow finds the Machines that nothing stands behind. Cluster API makes a Machine a moment
// after it has seen an NstanceMachine, which may have ended with its instance by then; and
// nobody but Cluster API would ever look at that Machine again.
func (r *Reconciler) hollow(st state) []string {
	var all []string
	for id, machine := range st.machines {
		if st.mirrors[id] == nil && machine.DeletionTimestamp.IsZero() && r.gone(id, st.shards) {
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

// seeMachinePool finds the MachinePool of the pool: the one that owns it, else the one of its
// name, else the oldest of those that refer to it.
func (r *Reconciler) seeMachinePool(ctx context.Context, reader client.Reader, st *state) error {
	likely := st.pool.Name
	for _, ref := range st.pool.OwnerReferences {
		if ref.Kind == "MachinePool" {
			likely = ref.Name
		}
	}
	var list clusterv1.MachinePoolList
	if err := reader.List(ctx, &list, client.InNamespace(st.pool.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	var claims []*clusterv1.MachinePool
	for i := range list.Items {
		if refers(&list.Items[i], st.pool) {
			claims = append(claims, &list.Items[i])
		}
	}
	if len(claims) == 0 {
		return nil
	}
	rank := func(m *clusterv1.MachinePool) int {
		if m.Name == likely {
			return 0
		}
		return 1
	}
	slices.SortFunc(claims, func(a, b *clusterv1.MachinePool) int { // a cache gives them in any order
		return cmp.Or(
			cmp.Compare(rank(a), rank(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name),
		)
	})
	st.machinePool = claims[0].DeepCopy()
	for _, rival := range claims[1:] {
		st.rivals = append(st.rivals, rival.Name)
	}
	return nil
}

// refers is whether a MachinePool has this infrastructure.
func refers(machinePool *clusterv1.MachinePool, pool *infrav1.NstanceMachinePool) bool {
	ref := machinePool.Spec.Template.Spec.InfrastructureRef
	return ref.Kind == infrav1.KindMachinePool && ref.APIGroup == infrav1.GroupVersion.Group && ref.Name == pool.Name
}

// seeOthers finds the pools that had the group on one of the shards before this one.
func (r *Reconciler) seeOthers(ctx context.Context, reader client.Reader, st *state) error {
	var list infrav1.NstanceMachinePoolList
	if err := reader.List(ctx, &list, client.InNamespace(st.pool.Namespace), client.UnsafeDisableDeepCopy); err != nil { // only read
		return err
	}
	for i := range list.Items {
		if other := &list.Items[i]; first(other, st.pool) && overlap(other, st.pool) {
			st.others = append(st.others, other.Name)
		}
	}
	slices.Sort(st.others)
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

// seeParts finds the NstanceShardGroups of the pool, and those of its group that belong to
// nobody.
func (r *Reconciler) seeParts(ctx context.Context, reader client.Reader, st *state) error {
	var list infrav1.NstanceShardGroupList
	err := reader.List(ctx, &list, client.InNamespace(st.pool.Namespace), client.MatchingLabels{infrav1.LabelGroup: st.pool.Spec.Group})
	if err != nil {
		return err
	}
	st.parts = map[string]*infrav1.NstanceShardGroup{}
	for i := range list.Items {
		part := &list.Items[i]
		owner := metav1.GetControllerOf(part)
		free := owner == nil && slices.Contains(st.pool.Spec.Shards, part.Spec.Shard)
		if free || owner != nil && owner.UID == st.pool.UID {
			st.parts[part.Spec.Shard] = part
		}
	}
	return nil
}

// seeMachines finds the Machines and NstanceMachines of the pool.
func (r *Reconciler) seeMachines(ctx context.Context, reader client.Reader, st *state) error {
	var mirrors infrav1.NstanceMachineList
	err := reader.List(ctx, &mirrors, client.InNamespace(st.pool.Namespace), client.MatchingLabels{infrav1.LabelGroup: st.pool.Spec.Group})
	if err != nil {
		return err
	}
	st.mirrors = map[string]*infrav1.NstanceMachine{}
	for i := range mirrors.Items {
		mirror := &mirrors.Items[i]
		if mirror.Spec.Mode == infrav1.MachineManaged && owned(mirror, st.pool) {
			st.mirrors[mirror.Spec.InstanceID] = mirror
		}
	}
	st.machines = map[string]*clusterv1.Machine{}
	if st.machinePool == nil {
		return nil
	}
	var machines clusterv1.MachineList
	err = reader.List(ctx, &machines, client.InNamespace(st.pool.Namespace), client.MatchingLabels{
		clusterv1.MachinePoolNameLabel: capi.PoolLabel(st.machinePool.Name),
	})
	if err != nil {
		return err
	}
	for i := range machines.Items {
		st.machines[machines.Items[i].Spec.InfrastructureRef.Name] = &machines.Items[i]
	}
	return nil
}

func owned(object client.Object, pool *infrav1.NstanceMachinePool) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == pool.UID })
}

// seePause finds out whether the pool is to be left alone.
func (r *Reconciler) seePause(ctx context.Context, reader client.Reader, st *state) error {
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

// hear takes together what is known of one shard. An instance that is shown as a machine
// counts until its shard says that it is gone, also if the shard has not said anything yet.
func (r *Reconciler) hear(name string, st state) shard {
	s := shard{gone: map[string]bool{}, coolOff: r.CoolOff.Of(inventory.Place{Shard: name, Group: st.pool.Spec.Group})}
	s.connection, s.configured = r.Connection(name)
	r.Inventory.Read(name, func(known *inventory.Shard) {
		s.synced, s.group = known.State(), known.Group(st.pool.Spec.Group)
		for _, in := range known.Instances(st.pool.Spec.Group) {
			switch kept, told := inventory.Kept(in, st.mirrors[in.GetInstanceId()] != nil); {
			case !told:
				s.unclear++
			case kept:
				s.instances = append(s.instances, in)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(st.mirrors)) {
			if mirror := st.mirrors[id]; mirror.Spec.Shard == name && known.Presence(id) == inventory.Unknown {
				s.instances = append(s.instances, remembered(mirror))
			}
		}
		if part := st.parts[name]; part != nil {
			for _, id := range part.Spec.Retiring {
				s.gone[id] = known.Presence(id) == inventory.Gone
			}
		}
	})
	return s
}

// remembered is an instance as the machine that shows it remembers it.
func remembered(mirror *infrav1.NstanceMachine) *nstancev1.InstanceStatus {
	return &nstancev1.InstanceStatus{
		InstanceId: mirror.Spec.InstanceID, Group: mirror.Spec.GroupRef.Name, ProviderUri: mirror.Spec.ProviderID,
		Status: inventory.StatusUnknown,
	}
}
