package shardgroup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/demand/settings"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/status"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// syncPace is how far apart writes are that change nothing but when the shard was heard.
const syncPace = time.Minute

// outcome is what came of a decision.
type outcome struct {
	decision
	request *nstancev1.UpsertGroupRequest // what was accepted; nil: nothing was
	failure *shards.Error                 // nil: there was none
}

// nextStatus is what there is to say of a shard group after something was done about it.
func nextStatus(p shardGroup, o outcome, now time.Time) infrav1.NstanceShardGroupStatus {
	old := p.object.Status
	n := p.count()
	next := infrav1.NstanceShardGroupStatus{
		ObservedGeneration: old.ObservedGeneration, IsStatic: p.static(), Config: old.Config, ServerSize: old.ServerSize,
		Replicas: n.running, Pending: n.pending, Draining: n.draining, Unhealthy: n.unhealthy,
		ProviderIDs: p.providerIDs(), Zone: old.Zone, Region: old.Region, Provider: old.Provider,
		Kind: old.Kind, Arch: old.Arch, Capacity: old.Capacity, LastSyncTime: old.LastSyncTime,
		Sent: old.Sent, Repairs: recent(old.Repairs, now),
	}
	describe(&next, p.group)
	next.Mode, next.Demand = p.group.GetMode(), p.demandStatus(n)
	if p.group == nil {
		next.Mode = old.Mode
	}
	if p.object.Spec.Demand != nil { // of a group of fixed size a Node would go with an id that is left out
		next.ProviderIDs = most(next.ProviderIDs, mostProviderIDs)
	}
	if o.request != nil {
		next.ObservedGeneration, next.Sent = p.object.Generation, p.sentNow(o.request.GetConfig())
		if o.action == repair {
			next.Repairs = append(next.Repairs, metav1.NewTime(now))
		}
	}
	if o.request == nil && old.ObservedGeneration == p.object.Generation && old.ObservedGeneration != 0 {
		next.Sent = slices.Compact(slices.Sorted(slices.Values(slices.Concat(old.Sent, sent(p.request(p.static()).GetConfig()))))) // an earlier version noted fewer
	}
	if o.failure != nil && o.failure.Class == shards.Locked {
		next.IsStatic = true
	}
	if len(next.Repairs) == 0 {
		next.Repairs = nil
	}
	next.Conditions = status.Next(old.Conditions, p.conditions(o, next, now), p.object.Generation, now)
	return heard(old, next, p.synced)
}

// pausedStatus is the status as it stands, with nothing new but that the object is paused.
func (p shardGroup) pausedStatus(now time.Time) infrav1.NstanceShardGroupStatus {
	next := *p.object.Status.DeepCopy()
	next.Conditions = status.With(next.Conditions, p.pausedCondition(), p.object.Generation, now)
	return next
}

func (p shardGroup) pausedCondition() metav1.Condition {
	if p.paused {
		return status.True(infrav1.ConditionPaused, infrav1.ReasonPaused, "the cluster or this group is paused")
	}
	return status.False(infrav1.ConditionPaused, infrav1.ReasonNotPaused, "")
}

// sentNow are the fields that the server was told, those included that it cannot set back.
func (p shardGroup) sentNow(config *nstancev1.GroupConfig) []string {
	fields := sent(config)
	for _, field := range p.object.Status.Sent {
		kept := field == fieldInstanceType && slices.Contains(p.stuck(), "instance_type") ||
			field == fieldSubnets && (slices.Contains(p.stuck(), "subnet_pool") || p.static())
		if kept && !slices.Contains(fields, field) {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	return fields
}

// mostProviderIDs is how many provider ids a status takes.
const mostProviderIDs = 10000

// demandStatus is what the shard has of a demand pool; nil for a group of fixed size. Before its server has
// decided anything, what the inventory has is all that is known.
func (p shardGroup) demandStatus(n counts) *infrav1.DemandStatus {
	if p.object.Spec.Demand == nil {
		return nil
	}
	usage := p.group.GetDemandUsage()
	if usage == nil {
		return &infrav1.DemandStatus{Machines: n.running + n.pending + n.draining + n.unhealthy}
	}
	return &infrav1.DemandStatus{
		Machines: usage.GetMachines(), Idle: usage.GetIdle(), HourlySpend: settings.Dollars(usage.GetHourlyMicroUsd()), Shortfalls: usage.GetShortfalls(),
	}
}

// describe takes over what the shard says of its group.
func describe(status *infrav1.NstanceShardGroupStatus, group *nstancev1.GroupStatus) {
	if group == nil {
		return
	}
	status.Config = &infrav1.GroupConfig{
		Template: group.GetTemplate(), Subnets: group.GetSubnetPool(), InstanceType: group.GetInstanceType(),
		Vars: group.GetVars(), Etag: group.GetEtag(), InstanceTypes: most(group.GetAllowedInstanceTypes(), 1024), LoadBalancers: most(group.GetLoadBalancers(), 64),
	}
	status.ServerSize = ptr.To(group.GetSize())
	status.Zone, status.Region, status.Provider = group.GetZone(), group.GetRegion(), group.GetProvider()
	status.Kind, status.Arch = group.GetKind(), group.GetArch()
	status.Capacity = nil
	for name, text := range group.GetCapacity() {
		quantity, err := resource.ParseQuantity(text)
		if err != nil { // a provider's word that Kubernetes cannot read is as good as none
			continue
		}
		if status.Capacity == nil {
			status.Capacity = infrav1.ResourceList{}
		}
		status.Capacity[corev1.ResourceName(name)] = quantity
	}
}

// most are the first items of a list, as many as the API server takes.
func most(list []string, n int) []string { return list[:min(len(list), n)] }

// heard sets when the shard was heard last, if that is worth a write: because something
// else has changed, or a minute has passed.
func heard(old, next infrav1.NstanceShardGroupStatus, synced inventory.State) infrav1.NstanceShardGroupStatus {
	at := synced.InstancesAt
	if synced.GroupsAt.Before(at) {
		at = synced.GroupsAt
	}
	if at.IsZero() {
		return next
	}
	if equality.Semantic.DeepEqual(old, next) && old.LastSyncTime != nil && at.Sub(old.LastSyncTime.Time) < syncPace {
		return next
	}
	if old.LastSyncTime == nil || at.After(old.LastSyncTime.Time) {
		next.LastSyncTime = ptr.To(metav1.NewTime(at.Truncate(time.Second)))
	}
	return next
}

// conditions are those of the status.
func (p shardGroup) conditions(o outcome, next infrav1.NstanceShardGroupStatus, now time.Time) []metav1.Condition {
	valid := p.configValid(o, next)
	room := status.True(infrav1.ConditionCapacityAvailable, infrav1.ReasonAvailable, "")
	if p.room.Refuses(now) {
		reason := infrav1.ReasonInsufficient
		if p.room.Quota {
			reason = infrav1.ReasonQuotaExceeded
		}
		room = status.False(infrav1.ConditionCapacityAvailable, reason, p.room.Why)
	}
	return []metav1.Condition{
		p.pausedCondition(), p.reachable(), p.instancesSynced(), valid, room,
		p.ready(next, valid, room),
	}
}

func (p shardGroup) reachable() metav1.Condition {
	const reachable = infrav1.ConditionShardReachable
	switch {
	case !p.configured:
		return status.Unknown(reachable, infrav1.ReasonShardNotConfigured, "the operator's configuration has no shard "+p.object.Spec.Shard)
	case p.shard.State == shards.Unreachable:
		return status.False(reachable, string(p.shard.Reason), p.shard.Message)
	case p.shard.State == shards.Connecting:
		return status.Unknown(reachable, infrav1.ReasonConnecting, p.shard.Message)
	}
	return status.True(reachable, infrav1.ReasonReachable, "")
}

func (p shardGroup) instancesSynced() metav1.Condition {
	const synced = infrav1.ConditionInstancesSynced
	switch {
	case p.synced.UnconfirmedMissing > 0:
		return status.False(synced, infrav1.ReasonInventoryShrunk, fmt.Sprintf("the shard's listing lacks %d instances at once; they count until another listing lacks them too", p.synced.UnconfirmedMissing))
	case p.synced.InstancesSynced:
		return status.True(synced, infrav1.ReasonSynced, "")
	case !p.connected():
		return status.False(synced, infrav1.ReasonShardUnreachable, "the instances are those that were known last")
	}
	return status.False(synced, infrav1.ReasonInventoryIncomplete, "the shard has not listed all its instances yet")
}

// configValid is whether the shard has accepted the spec. What is not known now is as it
// was, as long as it is about the same spec.
func (p shardGroup) configValid(o outcome, next infrav1.NstanceShardGroupStatus) metav1.Condition {
	const valid = infrav1.ConditionConfigValid
	accepted := status.True(valid, infrav1.ReasonAccepted, "")
	if stuck := p.stuck(); len(stuck) > 0 {
		accepted = status.True(valid, infrav1.ReasonFieldsKept, fmt.Sprintf(
			"the server keeps %s, because its version cannot set fields back: upgrade it, or set the value that is wanted", strings.Join(stuck, ", ")))
	}
	old := p.condition(valid)
	switch {
	case p.unable():
		return status.False(valid, infrav1.ReasonFeatureMissing, o.why)
	case o.action == backOff:
		return status.False(valid, infrav1.ReasonFoughtOver, o.why)
	case o.failure != nil && refusal(o.failure.Class) != "":
		return status.False(valid, refusal(o.failure.Class), o.failure.Error())
	case o.failure != nil && (old == nil || old.Status != metav1.ConditionTrue || old.ObservedGeneration != p.object.Generation):
		return status.Unknown(valid, infrav1.ReasonUnknown, "retrying: "+o.failure.Error())
	case o.request != nil:
		return accepted
	case o.action == noAction && o.why == "" && next.ObservedGeneration == p.object.Generation:
		return accepted
	case old != nil && old.ObservedGeneration == p.object.Generation:
		return *old
	}
	return status.Unknown(valid, infrav1.ReasonUnknown, "the shard has not been told yet")
}

// refusal is the reason of a refusal that stands until something changes; empty: the call
// may simply be repeated.
func refusal(class shards.Class) string {
	switch class {
	case shards.Invalid, shards.Precondition, shards.Locked:
		return infrav1.ReasonRejected
	case shards.OtherManager:
		return infrav1.ReasonManagedByOther
	case shards.OverQuota:
		return infrav1.ReasonQuotaExceeded
	default:
		return ""
	}
}

func (p shardGroup) ready(next infrav1.NstanceShardGroupStatus, valid, room metav1.Condition) metav1.Condition {
	const ready = infrav1.ConditionReady
	size := p.object.Spec.SizeOrZero()
	running := fmt.Sprintf("%d of %d instances are running", next.Replicas, size)
	switch {
	case !p.connected():
		return status.False(ready, infrav1.ReasonUnreachable, "shard "+p.object.Spec.Shard+" does not answer")
	case valid.Status == metav1.ConditionFalse && valid.Reason == infrav1.ReasonQuotaExceeded:
		return status.False(ready, valid.Reason, valid.Message)
	case valid.Status == metav1.ConditionFalse:
		return status.False(ready, infrav1.ReasonRejected, valid.Message)
	case !p.synced.Synced(), next.ObservedGeneration != p.object.Generation:
		return status.False(ready, infrav1.ReasonNotReady, "waiting for the shard")
	case p.object.Spec.Demand != nil:
		return status.True(ready, infrav1.ReasonReady, fmt.Sprintf("%d machines, as many as are needed", next.Demand.Machines))
	case next.Replicas < size && room.Status == metav1.ConditionFalse:
		return status.False(ready, infrav1.ReasonCapacityUnavailable, running+": "+room.Message)
	case next.Replicas < size:
		return status.False(ready, infrav1.ReasonScaling, running)
	case next.Draining > 0:
		return status.False(ready, infrav1.ReasonDraining, fmt.Sprintf("%d instances are leaving", next.Draining))
	}
	return status.True(ready, infrav1.ReasonReady, running)
}
