package machinepool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi/capacity"
	"nstance.dev/operator/controllers/machinepool/planner"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
)

// conditions are all that the pool says of itself.
func conditions(st state, p plan, next infrav1.NstanceMachinePoolStatus, duplicateIDs []string) []metav1.Condition {
	shardGroups := shardGroupsReady(st)
	all := []metav1.Condition{
		pausedCondition(st), poolConflict(st), shardGroups, shardsReachable(st), scalingCondition(st, p), scalingUp(st), scalingDown(st), rebalancingCondition(st, p), capacityAvailable(st),
		providerIDsUnique(duplicateIDs), zonalAutoscaling(st), capacityKnown(st, next), featureDegraded(st), specIgnored(st), nodesJoined(st), deletingCondition(st), readyCondition(st, next, shardGroups),
	}
	if st.pool.Spec.Demand != nil {
		all = append(all, demandAllowed(st), limitReached(st))
	}
	return all
}

// unsized says of a condition about the size of a pool that it has none.
const unsized = "a demand pool has no size: it has the machines that its Pods need"

func deletingCondition(st state) metav1.Condition {
	if st.pool.DeletionTimestamp.IsZero() {
		return status.False(infrav1.ConditionDeleting, infrav1.ReasonNotDeleting, "")
	}
	return status.True(infrav1.ConditionDeleting, infrav1.ReasonDeletingInstances,
		fmt.Sprintf("%d NstanceShardGroups and %d NstanceMachines remain", len(st.shardGroups), len(st.infraMachines)))
}

func pausedCondition(st state) metav1.Condition {
	if st.paused {
		return status.True(infrav1.ConditionPaused, infrav1.ReasonPaused, "")
	}
	return status.False(infrav1.ConditionPaused, infrav1.ReasonNotPaused, "")
}

func poolConflict(st state) metav1.Condition {
	switch {
	case len(st.nameTaken) > 0:
		return status.True(infrav1.ConditionPoolConflict, infrav1.ReasonMachinePoolNameTaken, fmt.Sprintf(
			"MachinePools %s belong to other pools, so none can be made for this one; make one whose infrastructureRef is NstanceMachinePool %s, or delete one of them",
			strings.Join(st.nameTaken, " and "), st.pool.Name))
	case len(st.otherMachinePools) > 0:
		return status.True(infrav1.ConditionPoolConflict, infrav1.ReasonSeveralMachinePools, fmt.Sprintf(
			"MachinePool %s decides about this pool; %s refer to it too and change nothing: delete them",
			st.machinePool.Name, strings.Join(st.otherMachinePools, ", ")))
	case len(st.otherPools) == 0:
		return status.False(infrav1.ConditionPoolConflict, infrav1.ReasonNoConflict, "")
	}
	return status.True(infrav1.ConditionPoolConflict, infrav1.ReasonSharedShard, fmt.Sprintf(
		"group %s belongs to %s already on a shard of this pool; this pool is not reconciled until the shard is taken out of spec.shards of one of them",
		st.pool.Spec.Group, strings.Join(st.otherPools, ", ")))
}

// shardGroupsReady sums up the shard groups; the first one that is not ready gives the reason.
func shardGroupsReady(st state) metav1.Condition {
	if st.tooMany() {
		return status.False(infrav1.ConditionShardGroupsReady, infrav1.ReasonTooManyReplicas, fmt.Sprintf(
			"spec.replicas of MachinePool %s is %d; a pool has at most %d instances over all shards, so nothing is changed until it is lowered",
			st.machinePool.Name, *st.machinePool.Spec.Replicas, MaxReplicas))
	}
	reason := infrav1.ReasonReady
	var waiting []string
	for _, name := range st.pool.Spec.Shards {
		why, text := infrav1.ReasonNotReady, "it does not exist yet"
		if shardGroup := st.shardGroups[name]; shardGroup != nil {
			ready := meta.FindStatusCondition(shardGroup.Status.Conditions, infrav1.ConditionReady)
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

func shardsReachable(st state) metav1.Condition {
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

// scalingCondition is true while more or fewer instances run than are wanted, or retiring ones are not
// gone yet.
func scalingCondition(st state, p plan) metav1.Condition {
	const scaling = infrav1.ConditionScaling
	if st.demands() {
		return status.False(scaling, infrav1.ReasonNotScaling, unsized)
	}
	if st.machinePool == nil || st.machinePool.Spec.Replicas == nil {
		return status.Unknown(scaling, infrav1.ReasonWaitingForOwner, "no MachinePool says how large the pool is to be")
	}
	running, want := st.running(), *st.machinePool.Spec.Replicas
	switch retiring := st.retiring(); {
	case p.sizes.Blocked > 0:
		return status.True(scaling, infrav1.ReasonShrinkBlocked, p.sizes.Reason)
	case retiring != "":
		return status.True(scaling, infrav1.ReasonScaling, retiring)
	case running != want:
		return status.True(scaling, infrav1.ReasonScaling, fmt.Sprintf("%d of %d replicas are running", running, want)+missing(st))
	}
	return status.False(scaling, infrav1.ReasonNotScaling, "")
}

// missing says on which shards instances do not run that should, and which command tells why a
// shard makes no more, which only its server knows; empty: on none that answers.
func missing(st state) string {
	var counts []string
	first := ""
	for _, name := range st.order() {
		shardGroup := st.shardGroups[name]
		if shardGroup == nil || !st.shards[name].reachable() || shardGroup.Status.Replicas >= shardGroup.Spec.SizeOrZero() {
			continue
		}
		first = cmp.Or(first, name)
		counts = append(counts, fmt.Sprintf("%d on shard %s", shardGroup.Spec.SizeOrZero()-shardGroup.Status.Replicas, name))
	}
	if len(counts) == 0 {
		return ""
	}
	return fmt.Sprintf("; missing: %s; if it lasts, \"nstance-admin group explain %s --shard %s\" says why",
		strings.Join(counts, ", "), st.pool.Spec.Group, first)
}

// scalingUp is true as long as fewer instances run than are wanted.
func scalingUp(st state) metav1.Condition {
	const up = infrav1.ConditionScalingUp
	if st.demands() {
		return status.False(up, infrav1.ReasonNotScalingUp, unsized)
	}
	if st.machinePool == nil || st.machinePool.Spec.Replicas == nil {
		return status.Unknown(up, infrav1.ReasonWaitingForOwner, "no MachinePool says how large the pool is to be")
	}
	if running, want := st.running(), *st.machinePool.Spec.Replicas; running < want {
		return status.True(up, infrav1.ReasonScalingUp, fmt.Sprintf("scaling up from %d to %d replicas", running, want)+missing(st))
	}
	return status.False(up, infrav1.ReasonNotScalingUp, "")
}

// scalingDown is true as long as more instances run than are wanted, or some that are to go
// have not gone.
func scalingDown(st state) metav1.Condition {
	const down = infrav1.ConditionScalingDown
	if st.demands() {
		return status.False(down, infrav1.ReasonNotScalingDown, unsized)
	}
	if st.machinePool == nil || st.machinePool.Spec.Replicas == nil {
		return status.Unknown(down, infrav1.ReasonWaitingForOwner, "no MachinePool says how large the pool is to be")
	}
	switch running, want, retiring := st.running(), *st.machinePool.Spec.Replicas, st.retiring(); {
	case running > want:
		return status.True(down, infrav1.ReasonScalingDown, fmt.Sprintf("scaling down from %d to %d replicas", running, want))
	case retiring != "":
		return status.True(down, infrav1.ReasonScalingDown, retiring)
	}
	return status.False(down, infrav1.ReasonNotScalingDown, "")
}

func rebalancingCondition(st state, p plan) metav1.Condition {
	const rebalancing = infrav1.ConditionRebalancing
	switch p.move.Kind {
	case planner.Open, planner.Wait:
		return status.True(rebalancing, infrav1.ReasonMoving, p.move.Reason)
	case planner.Abandon:
		return status.False(rebalancing, infrav1.ReasonStalled, p.move.Reason)
	case planner.Blocked:
		return status.False(rebalancing, infrav1.ReasonBlocked, p.move.Reason)
	case planner.Delay:
		return status.False(rebalancing, infrav1.ReasonWaiting, p.move.Reason)
	}
	return status.False(rebalancing, infrav1.ReasonBalanced, p.move.Reason)
}

func capacityAvailable(st state) metav1.Condition {
	for _, name := range st.order() {
		shardGroup := st.shardGroups[name]
		if shardGroup == nil {
			continue
		}
		if c := meta.FindStatusCondition(shardGroup.Status.Conditions, infrav1.ConditionCapacityAvailable); c != nil && c.Status == metav1.ConditionFalse {
			return status.False(infrav1.ConditionCapacityAvailable, c.Reason, name+": "+c.Message)
		}
	}
	return status.True(infrav1.ConditionCapacityAvailable, infrav1.ReasonAvailable, "")
}

func providerIDsUnique(duplicateIDs []string) metav1.Condition {
	if len(duplicateIDs) == 0 {
		return status.True(infrav1.ConditionProviderIDsUnique, infrav1.ReasonUnique, "")
	}
	return status.False(infrav1.ConditionProviderIDsUnique, infrav1.ReasonDuplicateTail,
		"an autoscaler cannot tell machines apart whose provider ids end alike: "+strings.Join(duplicateIDs, ", "))
}

// zonalAutoscaling says whether an autoscaler can tell the zones of the pool apart: it looks at one
// Node of a pool and takes all others for alike.
func zonalAutoscaling(st state) metav1.Condition {
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

// capacityKnown says whether an autoscaler can tell what a Node of this pool would offer
// while it has none. The autoscaler itself says nothing of a pool that it leaves out.
func capacityKnown(st state, next infrav1.NstanceMachinePoolStatus) metav1.Condition {
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

func featureDegraded(st state) metav1.Condition {
	if st.asMachines {
		return status.False(infrav1.ConditionFeatureDegraded, infrav1.ReasonNotDegraded, "")
	}
	return status.True(infrav1.ConditionFeatureDegraded, infrav1.ReasonMachinesDisabled,
		"--machinepool-machines=false: instances are not shown as Machines: when the pool shrinks the servers choose which instance goes, also if an autoscaler emptied another one")
}

// nodesJoined is whether each running instance has become a Node.
func nodesJoined(st state) metav1.Condition {
	if !st.asMachines {
		return status.Unknown(infrav1.ConditionNodesJoined, infrav1.ReasonMachinesDisabled, "--machinepool-machines=false: instances are not shown as Machines, which would know their Nodes")
	}
	if st.demands() {
		return status.Unknown(infrav1.ConditionNodesJoined, infrav1.ReasonMachinesDisabled, "machines of a demand pool are not shown as Machines, which would know their Nodes")
	}
	missing := 0
	for name, s := range st.shards {
		for _, in := range s.instances {
			if inventory.Runs(in) && !st.candidate(name, in).Joined {
				missing++
			}
		}
	}
	if missing == 0 {
		return status.True(infrav1.ConditionNodesJoined, infrav1.ReasonReady, "")
	}
	return status.False(infrav1.ConditionNodesJoined, infrav1.ReasonWaitingForNodes, fmt.Sprintf("%d running instances have no Node yet", missing))
}

func readyCondition(st state, next infrav1.NstanceMachinePoolStatus, shardGroups metav1.Condition) metav1.Condition {
	const ready = infrav1.ConditionReady
	switch {
	case len(st.otherPools) > 0:
		return status.False(ready, infrav1.ReasonSharedShard, "another pool has the group: "+strings.Join(st.otherPools, ", "))
	case modeOf(st) == infrav1.PoolSwitching:
		return status.False(ready, infrav1.ReasonSwitching, switching(st))
	case st.demands():
	case st.pool.Spec.Demand != nil:
		allowed := demandAllowed(st)
		return status.False(ready, allowed.Reason, allowed.Message)
	case st.machinePool == nil:
		return status.False(ready, infrav1.ReasonWaitingForOwner, "there is no MachinePool")
	case !next.Initialization.Provisioned:
		return status.False(ready, infrav1.ReasonNotReady, "not every shard has accepted its part yet")
	}
	return status.NewCondition(ready, boolOf(shardGroups), shardGroups.Reason, shardGroups.Message)
}

func boolOf(c metav1.Condition) *bool {
	holds := c.Status == metav1.ConditionTrue
	return &holds
}

// specIgnored says which fields of the spec mean nothing, because a server's configuration has
// the group and says something else.
func specIgnored(st state) metav1.Condition {
	var found []string
	for _, name := range st.pool.Spec.Shards {
		group := st.shards[name].group
		if !st.static(name) || group == nil {
			continue
		}
		for _, field := range specSettings(st.pool.Spec).differingFields(settingsOf(group)) {
			if text := "spec." + field; !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
	}
	if len(found) == 0 {
		return status.False(infrav1.ConditionSpecIgnored, infrav1.ReasonNotIgnored, "")
	}
	return status.True(infrav1.ConditionSpecIgnored, infrav1.ReasonStaticGroup, strings.Join(found, ", ")+
		" ignored: the group is static, and the server's configuration says something else; remove the fields, or change that configuration")
}
