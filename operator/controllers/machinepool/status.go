package machinepool

import (
	"maps"
	"slices"
	"time"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi/capacity"
	"nstance.dev/operator/status"
)

// status is what there is to say of a pool whose provider ids are these; duplicateIDs are those
// of them whose tail another id has too.
func (st state) status(p plan, ids, duplicateIDs []infrav1.ProviderID, now time.Time) infrav1.NstanceMachinePoolStatus {
	old := st.pool.Status
	next := infrav1.NstanceMachinePoolStatus{
		Initialization: old.Initialization, Ready: old.Ready, Replicas: int32(len(ids)), // at most 10000
		DesiredReplicas: old.DesiredReplicas, Capacity: old.Capacity, NodeInfo: old.NodeInfo, Learned: old.Learned,
		IsStatic: st.anyStatic(), Mode: modeOf(st), Demand: demandStatus(st),
		Shards: st.rows(), ShardCount: int32(len(st.pool.Spec.Shards)), // at most 64
		ObservedGeneration: st.pool.Generation, ObservedOwnerGeneration: old.ObservedOwnerGeneration,
	}
	if st.accepted() { // and never goes back: Cluster API stops looking at a pool that does
		next.Initialization.Provisioned, next.Ready = true, true
	}
	if pool, known := st.offer(); known {
		offer := capacity.Of(pool)
		next.Capacity, next.NodeInfo, next.Learned = offer.Capacity, offer.NodeInfo, pool.Learned
	}
	if st.asMachines && !st.demands() {
		next.InfrastructureMachineKind = infrav1.KindMachine
	}
	if st.demands() {
		next.DesiredReplicas = nil
	} else if st.machinePool != nil {
		next.DesiredReplicas, next.ObservedOwnerGeneration = st.machinePool.Spec.Replicas, st.machinePool.Generation
	}
	next.Template = st.same(func(c *infrav1.GroupConfig) string { return c.Template })
	next.Subnets = st.same(func(c *infrav1.GroupConfig) string { return c.Subnets })
	next.InstanceType = st.same(func(c *infrav1.GroupConfig) string { return c.InstanceType })
	next.Conditions = status.Next(old.Conditions, conditions(st, p, next, duplicateIDs), st.pool.Generation, now)
	return next
}

// accepted is whether each shard has accepted its part of the pool once.
func (st state) accepted() bool {
	for _, name := range st.pool.Spec.Shards {
		if shardGroup := st.shardGroups[name]; shardGroup == nil || shardGroup.Status.ObservedGeneration == 0 {
			return false
		}
	}
	return len(st.pool.Spec.Shards) > 0
}

// rows say what each shard has of the pool.
func (st state) rows() []infrav1.PoolShard {
	var rows []infrav1.PoolShard
	for _, name := range st.order() {
		row := infrav1.PoolShard{Name: name, Reachable: st.shards[name].reachable()}
		if shardGroup := st.shardGroups[name]; shardGroup != nil {
			row.Size, row.Running, row.Pending = shardGroup.Spec.SizeOrZero(), shardGroup.Status.Replicas, shardGroup.Status.Pending
			row.Draining, row.Unhealthy = shardGroup.Status.Draining, shardGroup.Status.Unhealthy
		}
		rows = append(rows, row)
	}
	return rows
}

// order has the listed shards first, as they are listed, and then those that are being removed.
func (st state) order() []string {
	order := slices.Clone(st.pool.Spec.Shards)
	for _, name := range slices.Sorted(maps.Keys(st.shardGroups)) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	return order
}

// same returns what the servers of all shard groups have in common; MixedValue where they differ,
// empty where nothing is known.
func (st state) same(of func(*infrav1.GroupConfig) string) string {
	value, known := "", false
	for _, name := range st.order() {
		shardGroup := st.shardGroups[name]
		switch {
		case shardGroup == nil || shardGroup.Status.Config == nil:
		case !known:
			value, known = of(shardGroup.Status.Config), true
		case value != of(shardGroup.Status.Config):
			return infrav1.MixedValue
		}
	}
	return value
}

// running is how many instances run on all shards.
func (st state) running() (n int32) {
	for _, shardGroup := range st.shardGroups {
		n += shardGroup.Status.Replicas
	}
	return n
}
