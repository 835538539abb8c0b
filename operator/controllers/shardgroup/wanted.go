package shardgroup

import (
	"context"
	"fmt"
	"slices"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/controllers/machinepool/planner"
)

// unwantedPause is until a size that the pool has not taken back yet is looked at again, if the pool's
// controller writes nothing before.
const unwantedPause = 5 * time.Second

// grows reports whether instances may be made by a decision. Then the size of the spec is compared with
// what the pool wants: the pool's controller lowers no size while the shard cannot be seen, nor before it
// has looked at the pool after a start.
func (p shardGroup) grows(d decision) bool {
	return (d.action == upsert || d.action == repair) && p.size() > p.group.GetSize()
}

// postpone is the decision instead of one that grows the group beyond what its pool wants: the spec is
// sent when the pool's controller has brought it up to date.
func (p shardGroup) postpone(most int) decision {
	return decision{
		action: noAction, again: unwantedPause,
		why: fmt.Sprintf("size %d is not sent: the pool wants %d of this shard at most", p.object.Spec.SizeOrZero(), most),
	}
}

// most returns the greatest size that the pool of an object wants of the shard, by what the API server
// has; false: no pool says a size. What the pool's MachinePool wants is read from the API server itself. Which
// MachinePool that is, and which shards share it, comes from the cache, unless that lacks this shard: when a hundred
// pools grow at once, each call to the API server holds up the others. Where the cache lacks another shard of the
// pool, the bound is that of the pool without it until the cache has caught up.
func (r *Reconciler) most(ctx context.Context, object *infrav1.NstanceShardGroup) (most int, known bool, err error) {
	if poolOf(object) == "" {
		return 0, false, nil
	}
	pool, claims, err := r.claimed(ctx, r.Client, object)
	if err == nil && pool == nil { // the cache may be behind, and then any size would do
		pool, claims, err = r.claimed(ctx, r.Live, object)
	}
	if err != nil || pool == nil {
		return 0, false, err
	}
	machinePool := &clusterv1.MachinePool{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(claims[0]), machinePool); err != nil {
		return 0, false, client.IgnoreNotFound(err)
	}
	if machinePool.Spec.Replicas == nil || !capi.Refers(machinePool, pool) {
		return 0, false, nil
	}
	wanted := planner.Pool{Replicas: int(*machinePool.Spec.Replicas)}
	for _, shard := range pool.Spec.Shards {
		wanted.Shards = append(wanted.Shards, planner.Shard{Name: shard, Size: wanted.Replicas})
	}
	if most = wanted.Most(object.Spec.Shard); int(object.Spec.SizeOrZero()) <= most {
		return most, true, nil // however much the others have: they need not be read
	}
	wanted.Shards = nil
	for _, shard := range pool.Spec.Shards {
		o := object
		if shard != object.Spec.Shard {
			o = &infrav1.NstanceShardGroup{}
			err := r.Live.Get(ctx, client.ObjectKey{Namespace: object.Namespace, Name: capi.ShardGroup(pool.Spec.Group, shard)}, o)
			if client.IgnoreNotFound(err) != nil {
				return 0, false, err
			}
		}
		s := planner.Shard{Name: shard}
		if o.DeletionTimestamp.IsZero() && poolOf(o) == pool.Name {
			s.Size, s.Surge = int(o.Spec.SizeOrZero()), o.Annotations[infrav1.AnnotationSurge] != ""
		}
		wanted.Shards = append(wanted.Shards, s)
	}
	return wanted.Most(object.Spec.Shard), true, nil
}

// claimed returns the pool of an object and the MachinePools that refer to it; no pool: none that has the object's shard
// is claimed.
func (r *Reconciler) claimed(ctx context.Context, from client.Reader, object *infrav1.NstanceShardGroup) (*infrav1.NstanceMachinePool, []*clusterv1.MachinePool, error) {
	pool := &infrav1.NstanceMachinePool{}
	if err := from.Get(ctx, client.ObjectKey{Namespace: object.Namespace, Name: poolOf(object)}, pool); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	claims, err := capi.MachinePools(ctx, r.Client, pool)
	if err != nil || len(claims) == 0 || !slices.Contains(pool.Spec.Shards, object.Spec.Shard) {
		return nil, nil, err
	}
	return pool, claims, nil
}
