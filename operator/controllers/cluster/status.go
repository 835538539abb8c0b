package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "nstance.dev/operator/api/controlplane/v1beta1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/status"
)

// contactPace is how far apart writes are that change nothing but when shards answered.
const contactPace = time.Minute

// maxFailureDomains is how many Cluster API takes.
const maxFailureDomains = 100

// shardView is one configured shard and what it has of our tenant.
type shardView struct {
	name              string
	connection        shards.Status
	groups, instances int
	// zone, region and provider are empty until a group has told them.
	zone, region, provider string
	asleep                 bool // some group is held at zero because the tenant sleeps
	heard                  bool // its groups are known
}

// view is all that the status of an NstanceCluster depends on.
type view struct {
	object  *infrav1.NstanceCluster
	paused  bool
	version string // of the operator
	shards  []shardView
}

// clusterStatus is what there is to say of a cluster.
func clusterStatus(v view, now time.Time) infrav1.NstanceClusterStatus {
	old := v.object.Status
	next := infrav1.NstanceClusterStatus{
		Initialization: infrav1.Initialization{Provisioned: true}, Ready: true,
		OperatorVersion: v.version, ObservedGeneration: v.object.Generation,
	}
	reachable := 0
	for _, s := range v.shards {
		if s.connection.Reachable() {
			reachable++
		}
		next.Shards = append(next.Shards, v.row(s))
		if domain := v.failureDomain(s); domain.Name != "" && len(next.FailureDomains) < maxFailureDomains {
			next.FailureDomains = append(next.FailureDomains, domain)
		}
	}
	next.ShardsReachable = fmt.Sprintf("%d/%d", reachable, len(v.shards))
	next.Conditions = status.Next(old.Conditions, v.conditions(reachable), v.object.Generation, now)
	return next
}

// pausedStatus is this controller's part of the status as it stands, with nothing new but that
// the cluster is paused.
func (v view) pausedStatus(now time.Time) infrav1.NstanceClusterStatus {
	old := v.object.Status
	next := infrav1.NstanceClusterStatus{
		Initialization: old.Initialization, Ready: old.Ready, OperatorVersion: old.OperatorVersion, ObservedGeneration: old.ObservedGeneration,
		Shards: old.Shards, FailureDomains: old.FailureDomains, ShardsReachable: old.ShardsReachable,
	}
	next.Conditions = status.With(status.Select(old.Conditions, v.conditions(0)), paused(true), v.object.Generation, now)
	return next
}

// row says how the operator stands with a shard. That it answered a moment ago again is
// said once a minute.
func (v view) row(s shardView) infrav1.ClusterShard {
	row := infrav1.ClusterShard{
		Name: s.name, State: infrav1.ShardState(s.connection.State), Address: s.connection.Address,
		Groups: int32(s.groups), Instances: int32(s.instances), Term: s.connection.Term,
	}
	if s.connection.Reason == shards.ReasonTenantUnknown {
		row.State = infrav1.ShardTenantUnknown
	}
	if !s.connection.LastContact.IsZero() {
		row.LastContact = ptr.To(metav1.NewTime(s.connection.LastContact.Truncate(time.Second)))
	}
	i := slices.IndexFunc(v.object.Status.Shards, func(o infrav1.ClusterShard) bool { return o.Name == s.name })
	if i < 0 {
		return row
	}
	old := v.object.Status.Shards[i]
	if row.LastContact == nil || old.LastContact != nil && row.LastContact.Sub(old.LastContact.Time) < contactPace {
		row.LastContact = old.LastContact
	}
	return row
}

// failureDomain is a shard as Cluster API knows it. What was known of it stays; without a
// name, nothing is known.
func (v view) failureDomain(s shardView) clusterv1.FailureDomain {
	if s.zone == "" && s.region == "" && s.provider == "" {
		for _, old := range v.object.Status.FailureDomains {
			if old.Name == s.name {
				return old
			}
		}
		return clusterv1.FailureDomain{}
	}
	attributes := map[string]string{}
	for key, value := range map[string]string{"zone": s.zone, "region": s.region, "provider": s.provider} {
		if value != "" {
			attributes[key] = value
		}
	}
	return clusterv1.FailureDomain{Name: s.name, ControlPlane: ptr.To(false), Attributes: attributes}
}

// conditions are those that this controller knows of.
func (v view) conditions(reachable int) []metav1.Condition {
	return []metav1.Condition{
		status.True(infrav1.ConditionReady, infrav1.ReasonProvisioned, ""),
		paused(v.paused),
		v.shardsReachable(reachable),
		v.degraded(),
		v.awake(),
	}
}

func paused(is bool) metav1.Condition {
	if is {
		return status.True(infrav1.ConditionPaused, infrav1.ReasonPaused, "")
	}
	return status.False(infrav1.ConditionPaused, infrav1.ReasonNotPaused, "")
}

func (v view) shardsReachable(reachable int) metav1.Condition {
	if reachable == len(v.shards) {
		return status.True(infrav1.ConditionShardsReachable, infrav1.ReasonReachable, fmt.Sprintf("all %d shards answer", reachable))
	}
	reason, waiting := "", true
	var silent []string
	for _, s := range v.shards {
		if s.connection.Reachable() {
			continue
		}
		text := s.name
		if s.connection.State == shards.Unreachable {
			reason, waiting = string(s.connection.Reason), false
			text += " (" + string(s.connection.Reason) + ": " + s.connection.Message + ")"
		}
		silent = append(silent, text)
	}
	message := strings.Join(silent, "; ")
	if waiting {
		return status.Unknown(infrav1.ConditionShardsReachable, infrav1.ReasonConnecting, message)
	}
	return status.False(infrav1.ConditionShardsReachable, reason, message)
}

func (v view) degraded() metav1.Condition {
	var lacking []string
	for _, s := range v.shards {
		if len(s.connection.Missing) > 0 {
			lacking = append(lacking, s.name+" lacks "+strings.Join(s.connection.Missing, ", "))
		}
	}
	if len(lacking) == 0 {
		return status.False(infrav1.ConditionFeatureDegraded, infrav1.ReasonNotDegraded, "")
	}
	return status.True(infrav1.ConditionFeatureDegraded, infrav1.ReasonFeatureMissing, strings.Join(lacking, "; "))
}

func (v view) awake() metav1.Condition {
	heard := false
	for _, s := range v.shards {
		heard = heard || s.heard
		if s.asleep {
			return status.False(infrav1.ConditionTenantAwake, infrav1.ReasonTenantAsleep, "the tenant sleeps: its groups are scaled to zero on "+s.name)
		}
	}
	if !heard {
		return status.Unknown(infrav1.ConditionTenantAwake, infrav1.ReasonUnknown, "no shard has reported its groups yet")
	}
	return status.True(infrav1.ConditionTenantAwake, infrav1.ReasonTenantAwake, "")
}

// controlPlaneStatus is what there is to say of the control plane: it is there, for the
// API server stores this. An empty version is one that was not learnt this time, for the
// reason why.
func controlPlaneStatus(object *controlplanev1.NstanceControlPlane, version, why string, now time.Time) controlplanev1.NstanceControlPlaneStatus {
	next := controlplanev1.NstanceControlPlaneStatus{
		Initialization:              controlplanev1.Initialization{ControlPlaneInitialized: true},
		ExternalManagedControlPlane: true,
		Version:                     version, ObservedGeneration: object.Generation,
	}
	available := status.True(infrav1.ConditionAvailable, infrav1.ReasonAvailable, "")
	if version == "" {
		next.Version = object.Status.Version
		available = status.Unknown(infrav1.ConditionAvailable, infrav1.ReasonUnknown, why)
	}
	next.Conditions = status.Next(object.Status.Conditions, []metav1.Condition{
		status.True(infrav1.ConditionReady, infrav1.ReasonReady, ""), available, paused(false),
	}, object.Generation, now)
	return next
}
