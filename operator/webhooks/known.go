package webhooks

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// Known is what is known of the shards at the moment of a request. Zero: nothing; then
// nothing is warned of.
type Known struct {
	// Shards are those of the configuration, by name. Nil: not known.
	Shards map[string]Shard
}

// Shard is what one shard has.
type Shard struct {
	// Synced is whether Groups is all that the shard has.
	Synced bool
	// Groups are the tenant's groups on the shard, by key.
	Groups map[string]Group
}

// Group is a group on a shard.
type Group struct {
	// InstanceTypes are those that it may have; empty: any, or not reported.
	InstanceTypes []string
	// Static: the server's configuration has the group. Template, Subnets and LoadBalancers
	// are those that it uses.
	Static            bool
	Template, Subnets string
	LoadBalancers     []string
}

// KnownOf returns what objects say of the shards: an NstanceCluster, and all NstanceShardGroups
// of its namespace. Each replica of the operator has them, the one that is connected to the
// shards and the others, so all warn of the same.
func KnownOf(cluster *infrav1.NstanceCluster, parts []infrav1.NstanceShardGroup) Known {
	if len(cluster.Status.Shards) == 0 {
		return Known{}
	}
	known := Known{Shards: map[string]Shard{}}
	for _, s := range cluster.Status.Shards {
		shard := Shard{Groups: map[string]Group{}}
		for i := range parts {
			part := &parts[i]
			if config := part.Status.Config; part.Spec.Shard == s.Name && config != nil {
				shard.Groups[part.Spec.Group] = Group{
					InstanceTypes: config.InstanceTypes, Static: part.Status.IsStatic,
					Template: config.Template, Subnets: config.Subnets, LoadBalancers: config.LoadBalancers,
				}
			}
		}
		// Groups that have no pool, for example because they are excluded, are in the count alone.
		shard.Synced = s.State == infrav1.ShardReady && int(s.Groups) == len(shard.Groups)
		known.Shards[s.Name] = shard
	}
	return known
}

// known reads what is known of the shards.
func (v PoolValidator) known(ctx context.Context, namespace string) (Known, error) {
	var clusters infrav1.NstanceClusterList
	var parts infrav1.NstanceShardGroupList
	for _, list := range []client.ObjectList{&clusters, &parts} {
		if err := v.Reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil { // only read
			return Known{}, fmt.Errorf("list %T: %w", list, err)
		}
	}
	if len(clusters.Items) != 1 {
		return Known{}, nil
	}
	return KnownOf(&clusters.Items[0], parts.Items), nil
}
