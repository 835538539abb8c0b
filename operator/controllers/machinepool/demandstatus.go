package machinepool

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/demand/settings"
	"nstance.dev/operator/status"
)

// modeOf is what decides how many machines the pool has.
func modeOf(st state) infrav1.PoolMode {
	switch {
	case st.removedMachinePool != nil, st.returning():
		return infrav1.PoolSwitching
	case !st.demands():
		return infrav1.PoolFixed
	case st.machinePool == nil && !slices.ContainsFunc(st.pool.Spec.Shards, func(name string) bool { return !shows(st, name, settings.ModeDemand) }):
		return infrav1.PoolDemand
	}
	return infrav1.PoolSwitching
}

// shows is whether the group is in a mode on a shard, by what was heard last, be it by an operator before this one.
func shows(st state, name, mode string) bool {
	if st.shards[name].group != nil {
		return st.hasMode(name, mode)
	}
	shardGroup := st.shardGroups[name]
	return shardGroup != nil && shardGroup.Status.Mode == mode
}

// switching says what a pool waits for that goes over from one mode to the other.
func switching(st state) string {
	want, to := settings.ModeFixed, "a fixed size"
	if st.demands() {
		want, to = settings.ModeDemand, "mode demand"
	}
	var waiting []string
	for _, name := range st.pool.Spec.Shards {
		if shardGroup := st.shardGroups[name]; shardGroup == nil || !accepted(shardGroup) || !shows(st, name, want) {
			waiting = append(waiting, name)
		}
	}
	switch {
	case len(waiting) > 0:
		return fmt.Sprintf("the group goes over to %s on %s", to, strings.Join(waiting, ", "))
	case st.removedMachinePool != nil:
		return fmt.Sprintf("MachinePool %s is being removed; the machines stay", st.removedMachinePool.Name)
	case st.machinePool != nil && st.demands():
		return demandAllowed(st).Message
	}
	return "the sizes that the shards have are being written down"
}

// demandStatus is what there is of a demand pool on all its shards; nil for a pool of fixed size.
func demandStatus(st state) *infrav1.DemandStatus {
	if !st.demands() {
		return nil
	}
	sum := &infrav1.DemandStatus{}
	for _, name := range st.order() {
		shardGroup := st.shardGroups[name]
		if shardGroup == nil || shardGroup.Status.Demand == nil {
			continue
		}
		has := shardGroup.Status.Demand
		sum.Machines, sum.Idle, sum.Shortfalls = sum.Machines+has.Machines, sum.Idle+has.Idle, sum.Shortfalls+has.Shortfalls
		if has.HourlySpend != nil {
			if sum.HourlySpend == nil {
				sum.HourlySpend = settings.Dollars(0)
			}
			sum.HourlySpend.Add(*has.HourlySpend)
		}
	}
	return sum
}

// limitReached is true where max or a limit leaves no shard of the pool room for one more machine.
func limitReached(st state) metav1.Condition {
	const reached = infrav1.ConditionLimitReached
	has, bounds := demandStatus(st), st.pool.Spec.Demand
	if has != nil && bounds.Max != nil && has.Machines >= *bounds.Max {
		return status.True(reached, infrav1.ReasonMaxReached, fmt.Sprintf("%d machines, and spec.demand.max is %d", has.Machines, *bounds.Max))
	}
	var full []string
	for _, name := range st.pool.Spec.Shards {
		if st.shards[name].group.GetDemandUsage().GetFull() {
			full = append(full, name)
		}
	}
	switch {
	case len(full) == 0:
		return status.False(reached, infrav1.ReasonWithinLimits, "")
	case len(full) == len(st.pool.Spec.Shards):
		return status.True(reached, infrav1.ReasonLimitReached, "spec.demand.max or spec.demand.limits leave no shard room for one more machine")
	}
	return status.False(reached, infrav1.ReasonWithinLimits, "the shares of "+strings.Join(full, ", ")+" are used up; the other shards have room")
}
