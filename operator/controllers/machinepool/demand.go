package machinepool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machinepool/planner"
	"nstance.dev/operator/demand/settings"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/status"
)

// demands reports whether the pool is a demand pool, or becomes one: it is to be one, and it may be, or
// has begun to.
func (st state) demands() bool {
	if st.pool.Spec.Demand == nil {
		return false
	}
	return st.begun() || demandAllowed(st).Status == metav1.ConditionTrue
}

// begun is whether some shard group is told to be of mode demand.
func (st state) begun() bool {
	for _, shardGroup := range st.shardGroups {
		if shardGroup.Spec.Demand != nil {
			return true
		}
	}
	return false
}

// returning is whether the pool is to have a fixed size, and some shard group does not say one yet.
func (st state) returning() bool {
	if st.pool.Spec.Demand != nil {
		return false
	}
	for _, shardGroup := range st.shardGroups {
		if shardGroup.Spec.Size == nil {
			return true
		}
	}
	return false
}

// demandAllowed says whether a pool that is to be a demand pool may be one, and what has to be done
// first. Nothing is begun until it may: the pool keeps its size.
func demandAllowed(st state) metav1.Condition {
	const allowed = infrav1.ConditionDemandAllowed
	no := func(reason, text string, values ...any) metav1.Condition {
		return status.False(allowed, reason, fmt.Sprintf(text, values...))
	}
	var old, fixed []string
	for _, name := range st.pool.Spec.Shards {
		s := st.shards[name]
		if s.configured && slices.Contains(s.connection.Missing, shards.DemandGroups) {
			old = append(old, name)
		}
		if st.static(name) && s.group != nil && !st.hasMode(name, settings.ModeDemand) {
			fixed = append(fixed, name)
		}
	}
	switch {
	case len(old) > 0:
		return no(infrav1.ReasonFeatureMissing, "the servers of %s are too old for demand pools; upgrade them", strings.Join(old, ", "))
	case len(fixed) > 0:
		return no(infrav1.ReasonStaticGroup, "the configuration of %s has group %s with a fixed size; set its mode to demand there, or take the group out of it",
			strings.Join(fixed, ", "), st.pool.Spec.Group)
	case st.machinePool == nil:
		return status.True(allowed, infrav1.ReasonAllowed, "")
	case len(scaledBy(st)) > 0:
		return no(infrav1.ReasonAutoscalerAnnotations, "an autoscaler scales MachinePool %s; remove its annotations %s first", st.machinePool.Name, strings.Join(scaledBy(st), " and "))
	case st.pool.Annotations[infrav1.AnnotationNoMachinePool] != "true":
		return no(infrav1.ReasonMachinePoolExists,
			"MachinePool %s says the size; set annotation %s=true on this pool, and the operator removes the MachinePool without touching a machine (do not delete it: that deletes the pool)",
			st.machinePool.Name, infrav1.AnnotationNoMachinePool)
	case st.retiring() != "":
		return no(infrav1.ReasonScalingDown, "%s; the pool becomes a demand pool after that", st.retiring())
	}
	return status.True(allowed, infrav1.ReasonAllowed, "")
}

// scaledBy are the annotations of the MachinePool by which an autoscaler takes it for its own.
func scaledBy(st state) []string {
	var found []string
	for _, key := range []string{autoscalerMax, autoscalerMin} {
		if _, has := st.machinePool.Annotations[key]; has {
			found = append(found, key)
		}
	}
	return found
}

// hasMode is whether the server of a shard has the group in a mode, by what it said last.
func (st state) hasMode(name, mode string) bool {
	group := st.shards[name].group
	return group != nil && !group.GetDeleting() && cmp.Or(group.GetMode(), settings.ModeFixed) == mode // an older server has but one
}

// machinePoolRemovalReason says why the MachinePool of the pool is to be removed, while the machines stay; empty: it is
// not. It goes when every shard has accepted that Pods decide from now on, not before: a block that a
// server refuses costs nothing. One whose pool has gone back meanwhile goes as well, for its replicas
// are those of before.
func (st state) machinePoolRemovalReason() string {
	switch {
	case st.machinePool == nil || len(st.otherPools) > 0:
		return ""
	case st.demands() && st.pool.Annotations[infrav1.AnnotationNoMachinePool] == "true" && st.acceptedDemand():
		return "every shard has the group in mode demand"
	case st.returning() && slices.ContainsFunc(st.pool.Spec.Shards, func(name string) bool { return st.hasMode(name, settings.ModeDemand) }):
		return "the group was in mode demand, and its replicas are not those that are there"
	}
	return ""
}

// acceptedDemand is whether each listed shard has accepted its share of a demand pool.
func (st state) acceptedDemand() bool {
	for _, name := range st.pool.Spec.Shards {
		shardGroup := st.shardGroups[name]
		if shardGroup == nil || shardGroup.Spec.Demand == nil || !accepted(shardGroup) || !st.hasMode(name, settings.ModeDemand) {
			return false
		}
	}
	return true
}

func accepted(shardGroup *infrav1.NstanceShardGroup) bool {
	return shardGroup.Status.ObservedGeneration != 0 && shardGroup.Status.ObservedGeneration == shardGroup.Generation
}

// remediated are the Machines that their health checks have given up. Of a demand pool none is: its servers
// replace what is not healthy.
func remediated(st state) []planner.Victim {
	if st.demands() || st.returning() {
		return nil
	}
	return planner.Remediate(st.machineHealth())
}

// clusterName is the Cluster that the pool belongs to: that of its MachinePool, else the one that
// new MachinePools would belong to.
func clusterName(st state, otherwise string) string {
	if st.machinePool == nil {
		return otherwise
	}
	return st.machinePool.Spec.ClusterName
}
