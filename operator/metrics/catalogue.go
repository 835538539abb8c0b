package metrics

import (
	"slices"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/shards"
)

// Labels.
var (
	byShard     = Label{Name: "shard"}
	byGroup     = Label{Name: "group"}
	byPool      = Label{Name: "pool"}
	byCall      = Label{Name: "rpc"}
	byCode      = Label{Name: "code"}
	byStream    = Label{Name: "stream"}
	byStreamEnd = Label{Name: "reason"}

	byState = Label{"state", []string{
		string(shards.Connecting), string(shards.Syncing), string(shards.Ready), string(shards.Degraded), string(shards.Unreachable),
	}}
	byErrorClass = Label{"class", []string{
		"capacity", "quota", "throttled", "invalid", "auth", "not-found-ref", "registration-timeout", "image", "lb", other,
	}}
	bySize      = Label{"kind", []string{"desired", "sizes", "running", "pending", "draining", "nodes_ready"}}
	byCondition = Label{"condition", []string{
		infrav1.ReasonUnreachable, infrav1.ReasonShardNotConfigured, infrav1.ReasonInventoryShrunk, infrav1.ReasonRejected,
		infrav1.ReasonManagedByOther, infrav1.ReasonFoughtOver, infrav1.ReasonInsufficient, infrav1.ReasonQuotaExceeded,
	}}
	byRedirection = Label{"class", []string{"unreachable", "capacity", "quota"}}
	byDrainReason = Label{"reason", []string{
		"unhealthy", "spot-termination", "expired", "forced-expiry", "config-drift", "scale-down", "group-deleted", "requested",
		"tenant-sleep", "preempted", "surplus", "empty", "consolidation", "rollout", other,
	}}
	byDrainResult = Label{"result", []string{"emptied", "forced"}}
	byPodResult   = Label{"result", []string{"evicted", "forced", "lost"}}
	byInstance    = Label{"state", []string{
		"none", string(infrav1.InstancePending), string(infrav1.InstanceProvisioning), string(infrav1.InstanceRunning),
		string(infrav1.InstancePoweredOff), string(infrav1.InstanceUnhealthy), string(infrav1.InstanceDraining), string(infrav1.InstanceTerminating),
		string(infrav1.InstanceTerminated), string(infrav1.InstanceUnknown),
	}}
	byReload = Label{"result", []string{"applied", "rejected"}}
)

// Bounds of histograms, in seconds.
var (
	callBounds  = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	bootBounds  = []float64{5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1800}
	drainBounds = []float64{1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
	slackBounds = []float64{-60, -10, 0, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
)

// The metrics of shards.
var (
	shardState     = Metric{"shard_state", Gauge, []Label{byShard, byState}, "1 for the state that the connection to a shard is in, 0 for the others.", nil}
	calls          = Metric{"shard_rpc_duration_seconds", Histogram, []Label{byShard, byCall, byCode}, "Duration of calls to shards.", callBounds}
	restarts       = Metric{"stream_restarts_total", Counter, []Label{byShard, byStream, byStreamEnd}, "Streams from shards that ended and were opened again.", nil}
	inventoryAge   = Metric{"inventory_age_seconds", Gauge, []Label{byShard}, "Time since a shard last told everything that it has.", nil}
	foreign        = Metric{"foreign_tenant_total", Counter, nil, "Messages from shards about another tenant, which were dropped.", nil}
	providerErrors = Metric{"provider_errors_total", Counter, []Label{byShard, byErrorClass}, "Errors of providers that shards have reported.", nil}
)

// The metrics of pools and of their parts.
var (
	poolReplicas = Metric{"pool_replicas", Gauge, []Label{byPool, bySize}, "Size of a pool: wanted (desired), given to shards (sizes), instances by state, and Nodes that are ready.", nil}
	timeToReady  = Metric{"pool_time_to_ready_seconds", Histogram, nil, "Time from a larger size of a pool to as many Nodes that are ready.", bootBounds}
	poolRetiring = Metric{"retiring", Gauge, []Label{byPool}, "Instances of a pool that leave on purpose and are still there.", nil}
	groupSize    = Metric{"shardgroup_size", Gauge, []Label{byGroup, byShard}, "Instances that a shard shall keep of a group.", nil}
	groups       = Metric{"shardgroups", Gauge, []Label{byCondition}, "NstanceShardGroups in this condition; one may be in several.", nil}
	redirected   = Metric{"growth_redirected_total", Counter, []Label{byGroup, byShard, byRedirection}, "Times that growth of a pool went past a shard, because it could not be seen, its provider had no room, or the quota was used up.", nil}
)

// The metrics of drains.
var (
	drainDuration = Metric{"drain_duration_seconds", Histogram, []Label{byDrainReason, byDrainResult}, "Duration of drains that have ended; forced: Pods had to be deleted, or stayed.", drainBounds}
	drainSlack    = Metric{"drain_deadline_slack_seconds", Histogram, nil, "How long before its deadline a drain ended; below zero: after it.", slackBounds}
	drainPods     = Metric{"drain_pods_total", Counter, []Label{byPodResult}, "Pods of Nodes that were drained: evicted, deleted against their budgets (forced), and those that stayed to the end (lost).", nil}
	drainBlocked  = Metric{"drain_budget_blocked_seconds", Gauge, nil, "For how long the drain that has waited longest for disruption budgets has waited; 0: none does.", nil}
	acks          = Metric{"ack_total", Counter, []Label{byCode}, "Answers of shards that were told that a Node is empty.", nil}
)

// The metrics of single instances.
var (
	onDemand      = Metric{"on_demand_machines", Gauge, []Label{byInstance}, "Instances that were made one by one, by state.", nil}
	onDemandReady = Metric{"on_demand_ready_seconds", Histogram, nil, "Time from a Pod that asks for an instance to its Node that is ready.", bootBounds}
	leaked        = Metric{"instances_leaked_total", Counter, nil, "Objects that were removed by force while their instance may still run.", nil}
)

// The metrics of the operator itself.
var (
	importGate       = Metric{"import_gate_open", Gauge, nil, "1 while groups of the servers become pools, 0 while a shard is waited for.", nil}
	configReloads    = Metric{"config_reload_total", Counter, []Label{byReload}, "Changes of the configuration, by whether they were applied.", nil}
	certificateStart = Metric{"certificate_start_seconds", Gauge, nil, "When the operator's certificate began, in seconds since 1970.", nil}
	certificateEnd   = Metric{"certificate_expiry_seconds", Gauge, nil, "When the operator's certificate ends, in seconds since 1970.", nil}
	tokenEnd         = Metric{"kubeconfig_token_expiry_seconds", Gauge, nil, "When the token of Cluster API's kubeconfig ends, in seconds since 1970.", nil}
)

// All returns every metric, in the order of the documentation.
func All() []Metric {
	return append([]Metric{
		shardState, calls, restarts, inventoryAge, foreign, providerErrors,
		poolReplicas, timeToReady, poolRetiring, groupSize, groups, redirected,
		drainDuration, drainSlack, drainPods, drainBlocked, acks,
		onDemand, onDemandReady, leaked,
		importGate, configReloads, certificateStart, certificateEnd, tokenEnd,
	}, slices.Concat(PodDemand(), DemandMode(), DemandBootstrap(), HostMachines())...)
}
