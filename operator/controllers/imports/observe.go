package imports

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/pool"
	"nstance.dev/operator/importing"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// world is what a plan is made from, and the objects that its steps are about.
type world struct {
	input importing.Input
	// cluster is as it was before anything else was read, input.Left what it said after that.
	cluster *infrav1.NstanceCluster
	pools   map[string]*infrav1.NstanceMachinePool // by name
}

// forgets is whether some groups that were left count no more. If the list changes just
// now, nobody knows.
func (w world) forgets() bool {
	left := importing.FormatPlaces(w.input.Left)
	same := importing.FormatPlaces(importing.ParsePlaces(w.cluster.Annotations[infrav1.AnnotationLeftGroups])) == left
	return same && importing.FormatPlaces(w.input.StillLeft()) != left
}

// observe reads all pools, and takes together what the shards have said. reader is the
// cache, or the API server.
//
// A pool that leaves its groups writes them down before it is gone. So the list is read
// before the pools, for what is on it and belongs to a pool that is not on its way out is
// not left; and after them, for a pool that is gone by then is on it.
func (r *Reconciler) observe(ctx context.Context, reader client.Reader) (world, error) {
	before, err := r.cluster(ctx, reader)
	if err != nil {
		return world{}, err
	}
	var pools infrav1.NstanceMachinePoolList
	var parts infrav1.NstanceShardGroupList
	var machinePools clusterv1.MachinePoolList
	for _, list := range []client.ObjectList{&pools, &parts, &machinePools} {
		if err := reader.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
			return world{}, fmt.Errorf("list what is imported: %w", err)
		}
	}
	after, err := r.cluster(ctx, reader)
	if err != nil {
		return world{}, err
	}
	w := world{cluster: before, pools: map[string]*infrav1.NstanceMachinePool{}}
	w.input.Left = importing.ParsePlaces(after.Annotations[infrav1.AnnotationLeftGroups])
	w.input.Settings = r.Settings()
	w.input.Shards = r.listings()
	for i := range pools.Items {
		object := &pools.Items[i]
		w.pools[object.Name] = object
		w.input.Pools = append(w.input.Pools, known(object, parts.Items, machinePools.Items))
	}
	for i := range machinePools.Items {
		if mp := &machinePools.Items[i]; w.pools[mp.Name] == nil || !refers(mp, mp.Name) {
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

// known is a pool as package importing sees it.
func known(object *infrav1.NstanceMachinePool, parts []infrav1.NstanceShardGroup, machinePools []clusterv1.MachinePool) importing.Pool {
	p := importing.Pool{
		Name: object.Name, Group: object.Spec.Group, Shards: object.Spec.Shards,
		ImportedFrom: object.Annotations[infrav1.AnnotationImportedFrom], Deleting: !object.DeletionTimestamp.IsZero(),
		Complete: object.Annotations[infrav1.AnnotationNoMachinePool] == "true" ||
			slices.ContainsFunc(machinePools, func(mp clusterv1.MachinePool) bool { return refers(&mp, object.Name) }),
		Begun: object.Status.DesiredReplicas != nil,
		Config: importing.Config{
			Template: object.Spec.Template, Subnets: object.Spec.Subnets, LoadBalancers: object.Spec.LoadBalancers,
			InstanceType: object.Spec.InstanceType, Vars: object.Spec.Vars,
		},
	}
	for i := range parts {
		part := &parts[i]
		if metav1.IsControlledBy(part, object) && slices.Contains(object.Spec.Shards, part.Spec.Shard) {
			p.ShardGroups = append(p.ShardGroups, importing.Size{Shard: part.Spec.Shard, Size: int(pool.Share(part))})
		}
	}
	return p
}

// refers is whether a MachinePool has the pool of that name as its infrastructure.
func refers(machinePool *clusterv1.MachinePool, name string) bool {
	ref := machinePool.Spec.Template.Spec.InfrastructureRef
	return ref.APIGroup == infrav1.GroupVersion.Group && ref.Kind == infrav1.KindMachinePool && ref.Name == name
}

// listings are the configured shards with what they have said, in their order.
func (r *Reconciler) listings() []importing.Shard {
	var all []importing.Shard
	for _, name := range r.Shards() {
		s := importing.Shard{Name: name}
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

// group is a group as package importing sees it: of its settings those that its first
// write may repeat without a change.
func group(g *nstancev1.GroupStatus) importing.Group {
	var static *int
	if g.StaticSize != nil {
		static = ptr.To(int(g.GetStaticSize()))
	}
	return importing.Group{
		Key: g.GetKey(), Size: int(g.GetSize()), Static: g.GetIsStatic(), StaticSize: static, Deleting: g.GetDeleting(),
		Config: importing.Config{
			Template: g.GetTemplate(), Subnets: g.GetSubnetPool(), LoadBalancers: g.GetLoadBalancers(),
			InstanceType: g.GetDynamic().GetInstanceType(), Vars: g.GetDynamic().GetVars().GetValues(),
		},
	}
}
