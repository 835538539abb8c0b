package machinepool

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/controllers/machinepool/planner"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// state is all that is known of one pool at one moment.
type state struct {
	pool        *infrav1.NstanceMachinePool
	machinePool *clusterv1.MachinePool // nil: there is none
	// removedMachinePool is a MachinePool whose removal has begun while its machines stay; it counts for nothing.
	removedMachinePool *clusterv1.MachinePool
	// otherMachinePools are other MachinePools that refer to the pool and do not count, nameTaken the
	// names that a MachinePool would get and that others have.
	otherMachinePools, nameTaken []string
	paused                       bool
	// otherPools are the other pools that have the group on one of the shards, and had it first.
	otherPools  []string
	shardGroups map[string]*infrav1.NstanceShardGroup // by shard
	// machines and infraMachines are the Machines and NstanceMachines of the pool, by instance.
	machines      map[string]*clusterv1.Machine
	infraMachines map[string]*infrav1.NstanceMachine
	shards        map[string]shard // those that the pool lists, and those of its shard groups
	// staleMachines are Machines of instances that are gone, without an NstanceMachine that could
	// take them with it, sorted.
	staleMachines []string
	// asMachines: each instance is shown as a Machine.
	asMachines bool
	// redirectAfter is how long a shard counts as unreachable before growth goes elsewhere.
	redirectAfter time.Duration
	// memoryShare is the share of a machine's memory that is left for Pods; zero: the default.
	memoryShare float64
}

// shard is one shard of the pool, as far as the pool's group goes.
type shard struct {
	configured bool
	connection shards.Status
	synced     inventory.State
	group      *nstancev1.GroupStatus
	instances  []*nstancev1.InstanceStatus // managed
	// unclear are instances of which nobody knows yet whether they are managed.
	unclear int
	gone    map[string]bool // retiring instances that are known to be gone
	// held are instances that are on hold, and until when.
	held    map[string]time.Time
	coolOff inventory.CoolOff
}

// reachable reports whether the shard is configured and answers.
func (s shard) reachable() bool {
	return s.configured && s.connection.Reachable()
}

// inventoryComplete reports whether all instances of the shard are known, so that one may be chosen.
func (s shard) inventoryComplete() bool {
	return s.configured && s.connection.State == shards.Ready && s.synced.Synced() && s.synced.UnconfirmedMissing == 0 && s.unclear == 0
}

// refusal is why the shard's provider lets the group not grow, if it does.
func (s shard) refusal() Redirection {
	if s.coolOff.Quota {
		return RedirectedQuota
	}
	return RedirectedCapacity
}

// redirectsGrowth reports whether growth goes to other shards.
func (st state) redirectsGrowth(name string, now time.Time) bool {
	s := st.shards[name]
	if st.pool.Spec.UnreachablePolicy == infrav1.UnreachableHold {
		return false
	}
	return !s.configured || s.connection.State == shards.Unreachable &&
		now.Sub(s.connection.Since) >= st.redirectAfter
}

// static is whether a server's configuration has the group on that shard.
func (st state) static(name string) bool {
	if group := st.shards[name].group; group != nil {
		return group.GetIsStatic()
	}
	shardGroup := st.shardGroups[name]
	return shardGroup != nil && shardGroup.Status.IsStatic
}

// MaxReplicas is how many instances a pool has at most over all shards: its list of provider
// ids takes no more.
const MaxReplicas = 10000

// tooMany reports whether the pool is to have more instances than it can. Nothing is done then.
func (st state) tooMany() bool {
	return st.machinePool != nil && st.machinePool.Spec.Replicas != nil && *st.machinePool.Spec.Replicas > MaxReplicas
}

// size is what a shard group has now: what the pool last wanted, and without a shard group what
// the shard has of the group already.
func (st state) size(name string) int {
	if shardGroup := st.shardGroups[name]; shardGroup != nil && shardGroup.Spec.Size != nil {
		return int(*shardGroup.Spec.Size)
	}
	if group := st.shards[name].group; group != nil && !group.GetDeleting() {
		return int(group.GetSize())
	}
	return 0
}

// listed are the shards that the pool is planned over, in its order: those that it lists,
// without those whose shard group is on its way out or was taken out by a user a moment ago.
func (st state) listed(now time.Time) []string {
	removed := userRemovedShards(st.pool)
	return slices.DeleteFunc(slices.Clone(st.pool.Spec.Shards), func(name string) bool {
		shardGroup := st.shardGroups[name]
		if shardGroup != nil {
			return !shardGroup.DeletionTimestamp.IsZero()
		}
		at, ok := removed[name]
		return ok && now.Sub(at) < removedShardTTL
	})
}

// candidates are the instances that may be victims, with what Kubernetes knows of them.
func (st state) candidates() []planner.Candidate {
	var all []planner.Candidate
	for _, name := range slices.Sorted(maps.Keys(st.shards)) {
		for _, in := range st.shards[name].instances {
			all = append(all, st.candidate(name, in))
		}
	}
	return all
}

func (st state) candidate(shard string, in *nstancev1.InstanceStatus) planner.Candidate {
	id := in.GetInstanceId()
	c := planner.Candidate{
		ID: id, Shard: shard, Created: in.GetCreatedAt().AsTime(), Machine: in.GetProviderUri() != "",
		Deleting: in.GetCondemned() != nil || in.GetStatus() == inventory.StatusTerminating ||
			in.GetStatus() == inventory.StatusTerminated || in.GetStatus() == inventory.StatusDraining,
	}
	_, c.OnHold = st.shards[shard].held[id]
	if shardGroup := st.shardGroups[shard]; shardGroup != nil && slices.Contains(shardGroup.Spec.Retiring, id) {
		c.Deleting = true
	}
	if infraMachine := st.infraMachines[id]; infraMachine != nil && !infraMachine.DeletionTimestamp.IsZero() {
		c.Deleting = true
	}
	machine := st.machines[id]
	if machine == nil {
		return c
	}
	c.DeleteAnnotation, c.Requested = machine.Annotations[clusterv1.DeleteMachineAnnotation], hasDeleteAnnotation(machine)
	c.Deleting = c.Deleting || !machine.DeletionTimestamp.IsZero()
	c.Repaving = capi.Repaving(machine)
	c.Joined = machine.Status.NodeRef.IsDefined()
	if ready := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.MachineNodeReadyCondition); c.Joined && ready != nil && ready.Status != metav1.ConditionTrue {
		c.NotReadySince = ready.LastTransitionTime.Time
	}
	return c
}

func hasDeleteAnnotation(machine *clusterv1.Machine) bool {
	_, requested := machine.Annotations[clusterv1.DeleteMachineAnnotation]
	return requested
}

// readyNodes is how many Nodes of a shard are ready and stay. Without Machines nothing is
// known of Nodes, and running instances stand for them.
func (st state) readyNodes(name string) int {
	n := 0
	for _, in := range st.shards[name].instances {
		if st.candidate(name, in).Deleting {
			continue
		}
		machine := st.machines[in.GetInstanceId()]
		switch {
		case !st.asMachines && inventory.Runs(in):
			n++
		case machine != nil && meta.IsStatusConditionTrue(machine.Status.Conditions, clusterv1.MachineNodeReadyCondition):
			n++
		}
	}
	return n
}

// present is how many instances of a shard are there, or on their way, and stay.
func (st state) present(name string) int {
	n := 0
	for _, in := range st.shards[name].instances {
		if c := st.candidate(name, in); !c.Deleting {
			n++
		}
	}
	return n
}

// retiring describes the retiring instances that are not gone yet; empty: there is none.
func (st state) retiring() string {
	n := 0
	for _, shardGroup := range st.shardGroups {
		for _, id := range shardGroup.Spec.Retiring {
			if !st.shards[shardGroup.Spec.Shard].gone[id] {
				n++
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d instances are still being deleted", n)
}

// machineHealth are the Machines of the pool as their health checks see them.
func (st state) machineHealth() []planner.MachineHealth {
	var all []planner.MachineHealth
	for id, machine := range st.machines {
		p := planner.MachineHealth{ID: id, Deleting: !machine.DeletionTimestamp.IsZero()}
		failed := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
		waits := meta.IsStatusConditionFalse(machine.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition)
		if failed != nil && failed.Status == metav1.ConditionFalse && waits {
			p.FailedSince = failed.LastTransitionTime.Time
		}
		_, p.SkipRemediation = machine.Annotations[clusterv1.MachineSkipRemediationAnnotation]
		for _, s := range st.shards {
			_, held := s.held[id]
			p.OnHold = p.OnHold || held
		}
		all = append(all, p)
	}
	return all
}

// currentUserRemovedShards are those of the annotation that still count at now and that the pool still lists, and
// those whose shard group a user is deleting.
func (st state) currentUserRemovedShards(now time.Time) map[string]time.Time {
	removed := userRemovedShards(st.pool)
	maps.DeleteFunc(removed, func(name string, at time.Time) bool {
		return now.Sub(at) >= removedShardTTL || !slices.Contains(st.pool.Spec.Shards, name)
	})
	for name, shardGroup := range st.shardGroups {
		byPool := shardGroup.Annotations[infrav1.AnnotationRetiredByPool] == "true"
		if !shardGroup.DeletionTimestamp.IsZero() && !byPool && slices.Contains(st.pool.Spec.Shards, name) {
			if _, known := removed[name]; !known {
				removed[name] = shardGroup.DeletionTimestamp.UTC()
			}
		}
	}
	return removed
}
