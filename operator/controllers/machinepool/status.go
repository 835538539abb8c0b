package machinepool

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi/capacity"
	"nstance.dev/operator/controllers/machinepool/planner"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
)

// Annotations by which the cluster autoscaler takes a MachinePool for one of its node
// groups (cluster-autoscaler, provider clusterapi).
const (
	autoscalerMin = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	autoscalerMax = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
)

// status is what there is to say of a pool whose provider ids are these; twins are those
// of them whose tail another id has too.
func (st state) status(p plan, ids, twins []infrav1.ProviderID, now time.Time) infrav1.NstanceMachinePoolStatus {
	old := st.pool.Status
	next := infrav1.NstanceMachinePoolStatus{
		Initialization: old.Initialization, Ready: old.Ready, Replicas: int32(len(ids)), // at most 10000
		DesiredReplicas: old.DesiredReplicas, Capacity: old.Capacity, NodeInfo: old.NodeInfo, Learned: old.Learned,
		IsStatic: st.anyStatic(),
		Shards:   st.rows(), ShardCount: int32(len(st.pool.Spec.Shards)), // at most 64
		ObservedGeneration: st.pool.Generation, ObservedOwnerGeneration: old.ObservedOwnerGeneration,
	}
	if st.accepted() { // and never goes back: Cluster API stops looking at a pool that does
		next.Initialization.Provisioned, next.Ready = true, true
	}
	if pool, known := st.offer(); known {
		offer := capacity.Of(pool)
		next.Capacity, next.NodeInfo, next.Learned = offer.Capacity, offer.NodeInfo, pool.Learned
	}
	if st.asMachines {
		next.InfrastructureMachineKind = infrav1.KindMachine
	}
	if st.machinePool != nil {
		next.DesiredReplicas, next.ObservedOwnerGeneration = st.machinePool.Spec.Replicas, st.machinePool.Generation
	}
	next.Template = st.same(func(c *infrav1.GroupConfig) string { return c.Template })
	next.Subnets = st.same(func(c *infrav1.GroupConfig) string { return c.Subnets })
	next.InstanceType = st.same(func(c *infrav1.GroupConfig) string { return c.InstanceType })
	next.Conditions = status.Next(old.Conditions, st.conditions(p, next, twins), st.pool.Generation, now)
	return next
}

// accepted is whether each shard has accepted its part of the pool once.
func (st state) accepted() bool {
	for _, name := range st.pool.Spec.Shards {
		if part := st.parts[name]; part == nil || part.Status.ObservedGeneration == 0 {
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
		if part := st.parts[name]; part != nil {
			row.Size, row.Running, row.Pending = part.Spec.Size, part.Status.Replicas, part.Status.Pending
			row.Draining, row.Unhealthy = part.Status.Draining, part.Status.Unhealthy
		}
		rows = append(rows, row)
	}
	return rows
}

// order has the listed shards first, as they are listed, and then those that are leaving.
func (st state) order() []string {
	order := slices.Clone(st.pool.Spec.Shards)
	for _, name := range slices.Sorted(maps.Keys(st.parts)) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	return order
}

// same returns what the servers of all parts have in common; MixedValue where they differ,
// empty where nothing is known.
func (st state) same(of func(*infrav1.GroupConfig) string) string {
	value, known := "", false
	for _, name := range st.order() {
		part := st.parts[name]
		switch {
		case part == nil || part.Status.Config == nil:
		case !known:
			value, known = of(part.Status.Config), true
		case value != of(part.Status.Config):
			return infrav1.MixedValue
		}
	}
	return value
}

func (st state) conditions(p plan, next infrav1.NstanceMachinePoolStatus, twins []string) []metav1.Condition {
	parts := st.partsReady()
	return []metav1.Condition{
		st.pausedCondition(), st.conflict(), parts, st.shardsReachable(), st.scaling(p), st.scalingUp(), st.scalingDown(), st.rebalancing(p), st.room(),
		unique(twins), st.zonal(), st.capacityKnown(next), st.degraded(), st.ignored(), st.nodesJoined(), st.deleting(), st.ready(next, parts),
	}
}

func (st state) deleting() metav1.Condition {
	if st.pool.DeletionTimestamp.IsZero() {
		return status.False(infrav1.ConditionDeleting, infrav1.ReasonNotDeleting, "")
	}
	return status.True(infrav1.ConditionDeleting, infrav1.ReasonDeletingInstances,
		fmt.Sprintf("%d parts and %d machines are left", len(st.parts), len(st.mirrors)))
}

func (st state) pausedCondition() metav1.Condition {
	if st.paused {
		return status.True(infrav1.ConditionPaused, infrav1.ReasonPaused, "")
	}
	return status.False(infrav1.ConditionPaused, infrav1.ReasonNotPaused, "")
}

func (st state) conflict() metav1.Condition {
	switch {
	case len(st.nameTaken) > 0:
		return status.True(infrav1.ConditionPoolConflict, infrav1.ReasonMachinePoolNameTaken, fmt.Sprintf(
			"MachinePools %s belong to other pools, so none can be made for this one; make one whose infrastructureRef is NstanceMachinePool %s, or delete one of them",
			strings.Join(st.nameTaken, " and "), st.pool.Name))
	case len(st.rivals) > 0:
		return status.True(infrav1.ConditionPoolConflict, infrav1.ReasonSeveralMachinePools, fmt.Sprintf(
			"MachinePool %s decides about this pool; %s refer to it too and change nothing: delete them",
			st.machinePool.Name, strings.Join(st.rivals, ", ")))
	case len(st.others) == 0:
		return status.False(infrav1.ConditionPoolConflict, infrav1.ReasonNoConflict, "")
	}
	return status.True(infrav1.ConditionPoolConflict, infrav1.ReasonSharedShard, fmt.Sprintf(
		"group %s belongs to %s already on a shard of this pool; nothing is done here until one of them gives the shard up",
		st.pool.Spec.Group, strings.Join(st.others, ", ")))
}

// partsReady sums up the parts; the first one that is not ready gives the reason.
func (st state) partsReady() metav1.Condition {
	if st.tooMany() {
		return status.False(infrav1.ConditionShardGroupsReady, infrav1.ReasonTooManyReplicas, fmt.Sprintf(
			"spec.replicas of MachinePool %s is %d; a pool has at most %d instances over all shards, so nothing is changed until it is lowered",
			st.machinePool.Name, *st.machinePool.Spec.Replicas, MaxReplicas))
	}
	reason := infrav1.ReasonReady
	var waiting []string
	for _, name := range st.pool.Spec.Shards {
		why, text := infrav1.ReasonNotReady, "it is not there yet"
		if part := st.parts[name]; part != nil {
			ready := meta.FindStatusCondition(part.Status.Conditions, infrav1.ConditionReady)
			if ready != nil && ready.Status == metav1.ConditionTrue {
				continue
			}
			text = "it has not been looked at yet"
			if ready != nil {
				why, text = ready.Reason, ready.Message
			}
		}
		if len(waiting) == 0 {
			reason = why
		}
		waiting = append(waiting, name+": "+text)
	}
	if len(waiting) == 0 {
		return status.True(infrav1.ConditionShardGroupsReady, reason, "")
	}
	return status.False(infrav1.ConditionShardGroupsReady, reason, strings.Join(waiting, "; "))
}

func (st state) shardsReachable() metav1.Condition {
	var silent []string
	for _, name := range st.order() {
		if !st.shards[name].reachable() {
			silent = append(silent, name)
		}
	}
	if len(silent) == 0 {
		return status.True(infrav1.ConditionShardsReachable, infrav1.ReasonReachable, "")
	}
	return status.False(infrav1.ConditionShardsReachable, infrav1.ReasonShardUnreachable, "no answer from "+strings.Join(silent, ", "))
}

// scaling is true until the instances that run are as many as are wanted, and nobody is
// leaving.
func (st state) scaling(p plan) metav1.Condition {
	const scaling = infrav1.ConditionScaling
	if st.machinePool == nil || st.machinePool.Spec.Replicas == nil {
		return status.Unknown(scaling, infrav1.ReasonWaitingForOwner, "no MachinePool says how large the pool is to be")
	}
	running, want := st.running(), *st.machinePool.Spec.Replicas
	switch leaving := st.retiring(); {
	case p.sizes.Blocked > 0:
		return status.True(scaling, infrav1.ReasonShrinkBlocked, p.sizes.Reason)
	case leaving != "":
		return status.True(scaling, infrav1.ReasonScaling, leaving)
	case running != want:
		return status.True(scaling, infrav1.ReasonScaling, fmt.Sprintf("%d of %d run", running, want))
	}
	return status.False(scaling, infrav1.ReasonNotScaling, "")
}

// running is how many instances run on all shards.
func (st state) running() (n int32) {
	for _, part := range st.parts {
		n += part.Status.Replicas
	}
	return n
}

// scalingUp is true as long as fewer instances run than are wanted.
func (st state) scalingUp() metav1.Condition {
	const up = infrav1.ConditionScalingUp
	if st.machinePool == nil || st.machinePool.Spec.Replicas == nil {
		return status.Unknown(up, infrav1.ReasonWaitingForOwner, "no MachinePool says how large the pool is to be")
	}
	if running, want := st.running(), *st.machinePool.Spec.Replicas; running < want {
		return status.True(up, infrav1.ReasonScalingUp, fmt.Sprintf("scaling up from %d to %d replicas", running, want))
	}
	return status.False(up, infrav1.ReasonNotScalingUp, "")
}

// scalingDown is true as long as more instances run than are wanted, or some that are to go
// have not gone.
func (st state) scalingDown() metav1.Condition {
	const down = infrav1.ConditionScalingDown
	if st.machinePool == nil || st.machinePool.Spec.Replicas == nil {
		return status.Unknown(down, infrav1.ReasonWaitingForOwner, "no MachinePool says how large the pool is to be")
	}
	switch running, want, leaving := st.running(), *st.machinePool.Spec.Replicas, st.retiring(); {
	case running > want:
		return status.True(down, infrav1.ReasonScalingDown, fmt.Sprintf("scaling down from %d to %d replicas", running, want))
	case leaving != "":
		return status.True(down, infrav1.ReasonScalingDown, leaving)
	}
	return status.False(down, infrav1.ReasonNotScalingDown, "")
}

func (st state) rebalancing(p plan) metav1.Condition {
	const rebalancing = infrav1.ConditionRebalancing
	switch p.move.Kind {
	case planner.Open, planner.Wait:
		return status.True(rebalancing, infrav1.ReasonMoving, p.move.Reason)
	case planner.Abandon:
		return status.False(rebalancing, infrav1.ReasonStalled, p.move.Reason)
	}
	return status.False(rebalancing, infrav1.ReasonBalanced, p.move.Reason)
}

func (st state) room() metav1.Condition {
	for _, name := range st.order() {
		part := st.parts[name]
		if part == nil {
			continue
		}
		if c := meta.FindStatusCondition(part.Status.Conditions, infrav1.ConditionCapacityAvailable); c != nil && c.Status == metav1.ConditionFalse {
			return status.False(infrav1.ConditionCapacityAvailable, c.Reason, name+": "+c.Message)
		}
	}
	return status.True(infrav1.ConditionCapacityAvailable, infrav1.ReasonAvailable, "")
}

func unique(twins []string) metav1.Condition {
	if len(twins) == 0 {
		return status.True(infrav1.ConditionProviderIDsUnique, infrav1.ReasonUnique, "")
	}
	return status.False(infrav1.ConditionProviderIDsUnique, infrav1.ReasonDuplicateTail,
		"an autoscaler cannot tell machines apart whose provider ids end alike: "+strings.Join(twins, ", "))
}

// zonal says whether an autoscaler can tell the zones of the pool apart: it looks at one
// Node of a pool and takes all others for alike.
func (st state) zonal() metav1.Condition {
	const zonal = infrav1.ConditionZonalAutoscaling
	if st.machinePool == nil || len(st.pool.Spec.Shards) < 2 {
		return status.True(zonal, infrav1.ReasonSingleShardPool, "")
	}
	if !st.autoscaled() {
		return status.True(zonal, infrav1.ReasonNotAutoscaled, "")
	}
	return status.False(zonal, infrav1.ReasonMultiShardPool,
		"the autoscaler takes all shards of this pool for one zone; for Pods that need a zone, such as those with volumes, make one pool for each shard")
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

// capacityKnown says whether an autoscaler can tell what a Node of this pool would offer
// while it has none. The autoscaler itself says nothing of a pool that it leaves out.
func (st state) capacityKnown(next infrav1.NstanceMachinePoolStatus) metav1.Condition {
	const known = infrav1.ConditionCapacityKnown
	if !st.autoscaled() {
		return status.True(known, infrav1.ReasonNotAutoscaled, "")
	}
	missing := capacity.Missing(next.Capacity, st.machinePool.Annotations)
	if len(missing) == 0 {
		return status.True(known, infrav1.ReasonAvailable, "")
	}
	return status.False(known, infrav1.ReasonCapacityUnknown, fmt.Sprintf(
		"the autoscaler ignores this pool while it has no Node: %s of a machine is unknown; set spec.nodeTemplate.capacity, or scale the MachinePool to 1 once and the operator learns it from the Node",
		strings.Join(missing, " and ")))
}

func (st state) degraded() metav1.Condition {
	if st.asMachines {
		return status.False(infrav1.ConditionFeatureDegraded, infrav1.ReasonNotDegraded, "")
	}
	return status.True(infrav1.ConditionFeatureDegraded, infrav1.ReasonFeatureMissing,
		"instances are not shown as Machines: when the pool shrinks the servers choose which instance goes, also if an autoscaler emptied another one")
}

// nodesJoined is whether each running instance has become a Node.
func (st state) nodesJoined() metav1.Condition {
	if !st.asMachines {
		return status.Unknown(infrav1.ConditionNodesJoined, infrav1.ReasonFeatureMissing, "instances are not shown as Machines, which would know their Nodes")
	}
	missing := 0
	for name, s := range st.shards {
		for _, in := range s.instances {
			if in.GetStatus() == inventory.StatusRunning && !st.candidate(name, in).Joined {
				missing++
			}
		}
	}
	if missing == 0 {
		return status.True(infrav1.ConditionNodesJoined, infrav1.ReasonReady, "")
	}
	return status.False(infrav1.ConditionNodesJoined, infrav1.ReasonWaitingForNodes, fmt.Sprintf("%d running instances have no Node yet", missing))
}

func (st state) ready(next infrav1.NstanceMachinePoolStatus, parts metav1.Condition) metav1.Condition {
	const ready = infrav1.ConditionReady
	switch {
	case len(st.others) > 0:
		return status.False(ready, infrav1.ReasonSharedShard, "another pool has the group: "+strings.Join(st.others, ", "))
	case st.machinePool == nil:
		return status.False(ready, infrav1.ReasonWaitingForOwner, "there is no MachinePool")
	case !next.Initialization.Provisioned:
		return status.False(ready, infrav1.ReasonNotReady, "not every shard has accepted its part yet")
	}
	return status.NewCondition(ready, boolOf(parts), parts.Reason, parts.Message)
}

func boolOf(c metav1.Condition) *bool {
	holds := c.Status == metav1.ConditionTrue
	return &holds
}
