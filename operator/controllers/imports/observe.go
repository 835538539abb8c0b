package imports

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/importing"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// world is what a plan is made from, and the objects that its steps are about.
type world struct {
	input importing.Input
	pools map[string]*infrav1.NstanceMachinePool // by name
}

// observe reads all pools, and takes together what the shards have said. reader is the
// cache, or the API server.
func (r *Reconciler) observe(ctx context.Context, reader client.Reader) (world, error) {
	var pools infrav1.NstanceMachinePoolList
	var parts infrav1.NstanceShardGroupList
	var machinePools clusterv1.MachinePoolList
	for _, list := range []client.ObjectList{&pools, &parts, &machinePools} {
		if err := reader.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
			return world{}, fmt.Errorf("list what is imported: %w", err)
		}
	}
	w := world{pools: map[string]*infrav1.NstanceMachinePool{}}
	w.input.Settings = r.Settings()
	w.input.Shards = r.listings()
	for i := range pools.Items {
		pool := &pools.Items[i]
		w.pools[pool.Name] = pool
		w.input.Pools = append(w.input.Pools, known(pool, parts.Items, machinePools.Items))
	}
	for i := range machinePools.Items {
		if mp := &machinePools.Items[i]; w.pools[mp.Name] == nil || !refers(mp, mp.Name) {
			w.input.Taken = append(w.input.Taken, mp.Name)
		}
	}
	return w, nil
}

// known is a pool as package importing sees it.
func known(pool *infrav1.NstanceMachinePool, parts []infrav1.NstanceShardGroup, machinePools []clusterv1.MachinePool) importing.Pool {
	p := importing.Pool{
		Name: pool.Name, Group: pool.Spec.Group, Shards: pool.Spec.Shards,
		ImportedFrom: pool.Annotations[infrav1.AnnotationImportedFrom], Deleting: !pool.DeletionTimestamp.IsZero(),
		Complete: slices.ContainsFunc(machinePools, func(mp clusterv1.MachinePool) bool { return refers(&mp, pool.Name) }),
		Config: importing.Config{
			Template: pool.Spec.Template, Subnets: pool.Spec.Subnets, LoadBalancers: pool.Spec.LoadBalancers,
			InstanceType: pool.Spec.InstanceType, Vars: pool.Spec.Vars,
		},
	}
	for i := range parts {
		if metav1.IsControlledBy(&parts[i], pool) {
			p.ShardGroups = append(p.ShardGroups, parts[i].Spec.Shard)
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
	return importing.Group{
		Key: g.GetKey(), Size: int(g.GetSize()), Static: g.GetIsStatic(), Deleting: g.GetDeleting(),
		Config: importing.Config{
			Template: g.GetTemplate(), Subnets: g.GetSubnetPool(), LoadBalancers: g.GetLoadBalancers(),
			InstanceType: g.GetDynamic().GetInstanceType(), Vars: g.GetDynamic().GetVars().GetValues(),
		},
	}
}
