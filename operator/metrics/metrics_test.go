package metrics_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/utils/ptr"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/testworld"
)

func TestWhatHappensIsCounted(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := metrics.New(registry)
	m.ShardState("a", shards.Ready)
	m.ShardState("a", shards.Degraded)
	m.ShardState("gone", shards.Ready)
	o := m.Observer()
	o.Call("a", "UpsertGroup", "OK", 30*time.Millisecond)
	o.Restart("a", "WatchGroups", "silent")
	o.Call("gone", "UpsertGroup", "OK", 30*time.Millisecond)
	o.ForeignTenant("a")
	m.ProviderError("a", "capacity")
	m.ProviderError("a", "instance-123")
	m.ProviderError("a", "instance-456")
	m.Reloaded(true)
	m.Reloaded(false)
	m.Certificate(time.Unix(500, 0), time.Unix(1000, 0))
	slack := -3 * time.Second
	m.Drained("expired", false, 40*time.Second, nil, 0)
	m.Drained("a reason of tomorrow", true, 40*time.Second, &slack, 2)
	m.PodMoved(false)
	m.DrainBlocked(90 * time.Second)
	m.Acknowledged(codes.OK)
	m.GrowthRedirected("web", "a", "capacity")
	m.GrowthRedirected("web", "gone", "unreachable")
	m.PoolReady(time.Minute)
	m.OnDemandReady(time.Minute)
	m.Leaked()
	m.TokenUntil(time.Unix(2000, 0))
	m.ShardRemoved("gone")

	want := `
# HELP nstance_operator_ack_total Answers of shards that were told that a Node is empty.
# TYPE nstance_operator_ack_total counter
nstance_operator_ack_total{code="OK"} 1
# HELP nstance_operator_certificate_start_seconds When the operator's certificate began, in seconds since 1970.
# TYPE nstance_operator_certificate_start_seconds gauge
nstance_operator_certificate_start_seconds 500
# HELP nstance_operator_drain_budget_blocked_seconds For how long the drain that has waited longest for disruption budgets has waited; 0: none does.
# TYPE nstance_operator_drain_budget_blocked_seconds gauge
nstance_operator_drain_budget_blocked_seconds 90
# HELP nstance_operator_drain_pods_total Pods of Nodes that were drained: evicted, deleted against their budgets (forced), and those that stayed to the end (lost).
# TYPE nstance_operator_drain_pods_total counter
nstance_operator_drain_pods_total{result="evicted"} 1
nstance_operator_drain_pods_total{result="forced"} 0
nstance_operator_drain_pods_total{result="lost"} 2
# HELP nstance_operator_growth_redirected_total Times that growth of a pool went past a shard, because it could not be seen, its provider had no room, or the quota was used up.
# TYPE nstance_operator_growth_redirected_total counter
nstance_operator_growth_redirected_total{class="capacity",group="web",shard="a"} 1
# HELP nstance_operator_instances_leaked_total Objects that were removed by force while their instance may still run.
# TYPE nstance_operator_instances_leaked_total counter
nstance_operator_instances_leaked_total 1
# HELP nstance_operator_certificate_expiry_seconds When the operator's certificate ends, in seconds since 1970.
# TYPE nstance_operator_certificate_expiry_seconds gauge
nstance_operator_certificate_expiry_seconds 1000
# HELP nstance_operator_config_reload_total Changes of the configuration, by whether they were applied.
# TYPE nstance_operator_config_reload_total counter
nstance_operator_config_reload_total{result="applied"} 1
nstance_operator_config_reload_total{result="rejected"} 1
# HELP nstance_operator_foreign_tenant_total Messages from shards about another tenant, which were dropped.
# TYPE nstance_operator_foreign_tenant_total counter
nstance_operator_foreign_tenant_total 1
# HELP nstance_operator_kubeconfig_token_expiry_seconds When the token of Cluster API's kubeconfig ends, in seconds since 1970.
# TYPE nstance_operator_kubeconfig_token_expiry_seconds gauge
nstance_operator_kubeconfig_token_expiry_seconds 2000
# HELP nstance_operator_provider_errors_total Errors of providers that shards have reported.
# TYPE nstance_operator_provider_errors_total counter
nstance_operator_provider_errors_total{class="capacity",shard="a"} 1
nstance_operator_provider_errors_total{class="other",shard="a"} 2
# HELP nstance_operator_shard_state 1 for the state that the connection to a shard is in, 0 for the others.
# TYPE nstance_operator_shard_state gauge
nstance_operator_shard_state{shard="a",state="Connecting"} 0
nstance_operator_shard_state{shard="a",state="Degraded"} 1
nstance_operator_shard_state{shard="a",state="Ready"} 0
nstance_operator_shard_state{shard="a",state="Syncing"} 0
nstance_operator_shard_state{shard="a",state="Unreachable"} 0
# HELP nstance_operator_stream_restarts_total Streams from shards that ended and were opened again.
# TYPE nstance_operator_stream_restarts_total counter
nstance_operator_stream_restarts_total{reason="silent",shard="a",stream="WatchGroups"} 1
`
	var named []string
	for _, line := range strings.Split(want, "\n") {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			named = append(named, strings.Fields(name)[0])
		}
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), named...); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{
		"shard_rpc_duration_seconds":   "OK UpsertGroup a: 1",
		"drain_duration_seconds":       "expired emptied: 1, other forced: 1",
		"drain_deadline_slack_seconds": ": 1",
		"pool_time_to_ready_seconds":   ": 1",
		"on_demand_ready_seconds":      ": 1",
	} {
		if got := observed(t, registry, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	lint(t, registry)
}

// observed returns the series of a histogram that have observations, and how many.
func observed(t *testing.T, g prometheus.Gatherer, name string) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if n := m.GetHistogram().GetSampleCount(); f.GetName() == metrics.Prefix+name && n > 0 {
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetValue())
				}
				all = append(all, fmt.Sprintf("%s: %d", strings.Join(labels, " "), n))
			}
		}
	}
	return strings.Join(all, ", ")
}

// lint checks names against Prometheus's own rules.
func lint(t *testing.T, g prometheus.Gatherer) {
	t.Helper()
	problems, err := testutil.GatherAndLint(g)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestObjectsAreCounted(t *testing.T) {
	desired := int32(3)
	meta := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}
	}
	node := func(name string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{infrav1.LabelGroup: "web", infrav1.LabelShard: "a"}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}
	}
	c := testworld.NewClientBuilder(t).WithObjects(
		&infrav1.NstanceMachinePool{
			ObjectMeta: meta("web", nil), Spec: infrav1.NstanceMachinePoolSpec{Group: "web"},
			Status: infrav1.NstanceMachinePoolStatus{DesiredReplicas: &desired, Shards: []infrav1.PoolShard{{Name: "a", Running: 2, Pending: 1}, {Name: "b", Draining: 1}}},
		},
		&infrav1.NstanceShardGroup{
			ObjectMeta: meta("web--a", map[string]string{infrav1.LabelPool: "web"}),
			Spec:       infrav1.NstanceShardGroupSpec{Group: "web", Shard: "a", Size: ptr.To[int32](2), Retiring: []infrav1.InstanceID{"x"}},
			Status: infrav1.NstanceShardGroupStatus{Conditions: []metav1.Condition{
				{Type: infrav1.ConditionShardReachable, Status: metav1.ConditionFalse, Reason: "ShardAuthFailed"},
				{Type: infrav1.ConditionConfigValid, Status: metav1.ConditionFalse, Reason: infrav1.ReasonFoughtOver},
				{Type: infrav1.ConditionReady, Status: metav1.ConditionFalse, Reason: infrav1.ReasonRejected},
			}},
		},
		&infrav1.NstanceShardGroup{
			ObjectMeta: meta("web--b", map[string]string{infrav1.LabelPool: "web"}), Spec: infrav1.NstanceShardGroupSpec{Group: "web", Shard: "b", Size: ptr.To[int32](1)},
		},
		&infrav1.NstanceMachine{ObjectMeta: meta("one", nil), Spec: infrav1.NstanceMachineSpec{Mode: infrav1.MachineOnDemand}},
		&infrav1.NstanceMachine{ObjectMeta: meta("two", nil), Spec: infrav1.NstanceMachineSpec{Mode: infrav1.MachineManaged}},
		&infrav1.NstanceCluster{
			ObjectMeta: meta("c", nil),
			Status:     infrav1.NstanceClusterStatus{Conditions: []metav1.Condition{{Type: infrav1.ConditionImportComplete, Status: metav1.ConditionTrue}}},
		},
		node("n1", corev1.ConditionTrue), node("n2", corev1.ConditionFalse), node("n3", corev1.ConditionTrue),
	).Build()
	store := inventory.NewStore("default", nil)
	store.Configure([]string{"a", "silent"})
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	store.Update("a", func(s *inventory.Shard) []inventory.Change {
		s.Connected(1, now)
		return s.ListedInstances(inventory.InstanceList{Complete: true, Asked: now}, now)
	})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics.Objects{
		Reader: c, Nodes: c, Namespace: "ns", Inventory: store, Now: func() time.Time { return now.Add(7 * time.Second) },
	})
	want := `
# HELP nstance_operator_import_gate_open 1 while groups of the servers become pools, 0 while a shard is waited for.
# TYPE nstance_operator_import_gate_open gauge
nstance_operator_import_gate_open 1
# HELP nstance_operator_inventory_age_seconds Time since a shard last told everything that it has.
# TYPE nstance_operator_inventory_age_seconds gauge
nstance_operator_inventory_age_seconds{shard="a"} 7
# HELP nstance_operator_on_demand_machines Instances that were made one by one, by state.
# TYPE nstance_operator_on_demand_machines gauge
nstance_operator_on_demand_machines{state="draining"} 0
nstance_operator_on_demand_machines{state="none"} 1
nstance_operator_on_demand_machines{state="pending"} 0
nstance_operator_on_demand_machines{state="powered-off"} 0
nstance_operator_on_demand_machines{state="provisioning"} 0
nstance_operator_on_demand_machines{state="running"} 0
nstance_operator_on_demand_machines{state="terminated"} 0
nstance_operator_on_demand_machines{state="terminating"} 0
nstance_operator_on_demand_machines{state="unhealthy"} 0
nstance_operator_on_demand_machines{state="unknown"} 0
# HELP nstance_operator_pool_replicas Size of a pool: wanted (desired), given to shards (sizes), instances by state, and Nodes that are ready.
# TYPE nstance_operator_pool_replicas gauge
nstance_operator_pool_replicas{kind="desired",pool="web"} 3
nstance_operator_pool_replicas{kind="draining",pool="web"} 1
nstance_operator_pool_replicas{kind="nodes_ready",pool="web"} 2
nstance_operator_pool_replicas{kind="pending",pool="web"} 1
nstance_operator_pool_replicas{kind="running",pool="web"} 2
nstance_operator_pool_replicas{kind="sizes",pool="web"} 3
# HELP nstance_operator_retiring Instances of a pool that leave on purpose and are still there.
# TYPE nstance_operator_retiring gauge
nstance_operator_retiring{pool="web"} 1
# HELP nstance_operator_shardgroup_size Instances that a shard shall keep of a group.
# TYPE nstance_operator_shardgroup_size gauge
nstance_operator_shardgroup_size{group="web",shard="a"} 2
nstance_operator_shardgroup_size{group="web",shard="b"} 1
# HELP nstance_operator_shardgroups NstanceShardGroups in this condition; one may be in several.
# TYPE nstance_operator_shardgroups gauge
nstance_operator_shardgroups{condition="FoughtOver"} 1
nstance_operator_shardgroups{condition="InsufficientCapacity"} 0
nstance_operator_shardgroups{condition="InventoryShrunk"} 0
nstance_operator_shardgroups{condition="ManagedByOther"} 0
nstance_operator_shardgroups{condition="QuotaExceeded"} 0
nstance_operator_shardgroups{condition="Rejected"} 0
nstance_operator_shardgroups{condition="ShardNotConfigured"} 0
nstance_operator_shardgroups{condition="Unreachable"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	lint(t, registry)
}
