package importer

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/demand/settings"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// world is what a plan is made from, and the objects that its steps are about.
type world struct {
	input Input
	// cluster is as it was before anything else was read, input.Orphaned what its annotation said after that.
	cluster *infrav1.NstanceCluster
	pools   map[string]*infrav1.NstanceMachinePool // by name
}

// forgets reports whether some orphaned groups no longer count. If the list changes just
// now, nobody knows.
func (w world) forgets() bool {
	orphaned := capi.FormatOrphanedGroups(w.input.Orphaned)
	same := capi.FormatOrphanedGroups(capi.ParseOrphanedGroups(w.cluster.Annotations[infrav1.AnnotationOrphanedGroups])) == orphaned
	return same && capi.FormatOrphanedGroups(w.input.StillOrphaned()) != orphaned
}

// observe reads all pools, and takes together what the shards have said. reader is the
// cache, or the API server.
//
// A pool that leaves its groups writes them down before it is gone. So the list is read
// before the pools, for what is on it and belongs to a pool that is not on its way out is
// not left; and after them, for a pool that is gone by then is on it. A user makes a pool and
// then its MachinePool, whose name nothing else gets, so the pools are read last: with the
// MachinePool alone in sight, its group would get a second pool of another name.
func (r *Reconciler) observe(ctx context.Context, reader client.Reader) (world, error) {
	before, err := r.cluster(ctx, reader)
	if err != nil {
		return world{}, err
	}
	var pools infrav1.NstanceMachinePoolList
	var shardGroups infrav1.NstanceShardGroupList
	var machinePools clusterv1.MachinePoolList
	for _, list := range []client.ObjectList{&machinePools, &shardGroups, &pools} {
		if err := reader.List(ctx, list, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil { // only read
			return world{}, fmt.Errorf("list what is imported: %w", err)
		}
	}
	after, err := r.cluster(ctx, reader)
	if err != nil {
		return world{}, err
	}
	w := world{cluster: before, pools: map[string]*infrav1.NstanceMachinePool{}}
	w.input.Orphaned = capi.ParseOrphanedGroups(after.Annotations[infrav1.AnnotationOrphanedGroups])
	w.input.Settings = r.Settings()
	w.input.Shards = r.listings()
	complete, shares := referred(machinePools.Items), byOwner(shardGroups.Items)
	for i := range pools.Items {
		object := &pools.Items[i]
		p := known(object)
		p.Complete = p.Complete || complete[object.Name] || slices.ContainsFunc(shares[object.UID], unsized)
		p.ShardGroups, p.Lost = sizes(object, shares[object.UID]), rivals(object, shardGroups.Items)
		w.pools[object.Name] = object
		w.input.Pools = append(w.input.Pools, p)
	}
	for i := range machinePools.Items {
		if mp := &machinePools.Items[i]; w.pools[mp.Name] == nil || infrastructure(mp) != mp.Name {
			w.input.Taken = append(w.input.Taken, mp.Name)
		}
	}
	return w, nil
}

// cluster reads the NstanceCluster.
func (r *Reconciler) cluster(ctx context.Context, reader client.Reader) (*infrav1.NstanceCluster, error) {
	cluster := &infrav1.NstanceCluster{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Cluster}, cluster); err != nil {
		return nil, fmt.Errorf("read NstanceCluster %s: %w", r.Cluster, err)
	}
	return cluster, nil
}

// known is what a pool itself says of what the plan has to know.
func known(object *infrav1.NstanceMachinePool) Pool {
	return Pool{
		Name: object.Name, Group: object.Spec.Group, Shards: object.Spec.Shards,
		ImportedFrom: object.Annotations[infrav1.AnnotationImportedFrom], Deleting: !object.DeletionTimestamp.IsZero(),
		Complete: object.Annotations[infrav1.AnnotationNoMachinePool] == "true" || object.Spec.Demand != nil,
		Begun:    object.Status.DesiredReplicas != nil || object.Status.Initialization.Provisioned,
		Config: Config{
			Template: object.Spec.Template, Subnets: object.Spec.Subnets, LoadBalancers: object.Spec.LoadBalancers,
			InstanceType: object.Spec.InstanceType, Vars: object.Spec.Vars,
		},
	}
}

// unsized is whether a shard group is of a demand pool, or of one that was one and does not say its size yet.
func unsized(shardGroup *infrav1.NstanceShardGroup) bool { return shardGroup.Spec.Size == nil }

// sizes are those of the shard groups of a pool on the shards that it lists.
func sizes(object *infrav1.NstanceMachinePool, shardGroups []*infrav1.NstanceShardGroup) []Size {
	var all []Size
	for _, shardGroup := range shardGroups {
		if slices.Contains(object.Spec.Shards, shardGroup.Spec.Shard) {
			all = append(all, Size{Shard: shardGroup.Spec.Shard, Size: int(shardGroup.Share())})
		}
	}
	return all
}

// rivals are the pools other than this one that have shard groups of its group on shards that it lists.
func rivals(object *infrav1.NstanceMachinePool, shardGroups []infrav1.NstanceShardGroup) []string {
	var all []string
	for i := range shardGroups {
		owner := metav1.GetControllerOfNoCopy(&shardGroups[i])
		if owner != nil && owner.UID != object.UID && shardGroups[i].Spec.Group == object.Spec.Group && slices.Contains(object.Spec.Shards, shardGroups[i].Spec.Shard) {
			all = append(all, owner.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// byOwner are the shard groups of each pool, by its UID.
func byOwner(shardGroups []infrav1.NstanceShardGroup) map[types.UID][]*infrav1.NstanceShardGroup {
	all := map[types.UID][]*infrav1.NstanceShardGroup{}
	for i := range shardGroups {
		if owner := metav1.GetControllerOfNoCopy(&shardGroups[i]); owner != nil {
			all[owner.UID] = append(all[owner.UID], &shardGroups[i])
		}
	}
	return all
}

// referred are the pools that MachinePools have as their infrastructure, by name.
func referred(machinePools []clusterv1.MachinePool) map[string]bool {
	all := map[string]bool{}
	for i := range machinePools {
		all[infrastructure(&machinePools[i])] = true
	}
	return all
}

// infrastructure is the name of the pool that is the infrastructure of a MachinePool; empty:
// it has another one.
func infrastructure(machinePool *clusterv1.MachinePool) string {
	ref := machinePool.Spec.Template.Spec.InfrastructureRef
	if ref.APIGroup != infrav1.GroupVersion.Group || ref.Kind != infrav1.KindMachinePool {
		return ""
	}
	return ref.Name
}

// listings are the configured shards with what they have said, in their order.
func (r *Reconciler) listings() []Shard {
	var all []Shard
	for _, name := range r.Shards() {
		s := Shard{Name: name}
		status, connected := r.Connection(name)
		r.Inventory.Read(name, func(known *inventory.Shard) {
			s.Listed = connected && status.State == shards.Ready && known.State().GroupsSynced
			for _, g := range known.Groups() {
				s.Groups = append(s.Groups, group(g))
			}
		})
		all = append(all, s)
	}
	return all
}

// group is a group as the plan sees it: of its settings those that its first
// write may repeat without a change.
func group(g *nstancev1.GroupStatus) Group {
	var static *int
	if g.StaticSize != nil {
		static = ptr.To(int(g.GetStaticSize()))
	}
	found := Group{
		Key: g.GetKey(), Size: int(g.GetSize()), Static: g.GetIsStatic(), StaticSize: static, Deleting: g.GetDeleting(),
		Config: Config{
			Template: g.GetTemplate(), Subnets: g.GetSubnetPool(), LoadBalancers: g.GetLoadBalancers(),
			InstanceType: g.GetDynamic().GetInstanceType(), Vars: g.GetDynamic().GetVars().GetValues(),
		},
	}
	if g.GetMode() != settings.ModeDemand {
		return found
	}
	found.Requirements = settings.RequirementsFromServer(g.GetInstanceRequirements())
	found.Demand = settings.FromServer(g.GetDynamic().GetDemand())
	switch {
	case g.GetIsStatic():
		found.Demand = settings.FromServer(g.GetDemand())
	case found.Demand == nil:
		found.Demand = &infrav1.DemandSettings{}
	}
	return found
}
