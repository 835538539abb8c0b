package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
)

// scrapeTimeout bounds one look at the objects.
const scrapeTimeout = 5 * time.Second

var (
	poolReplicas = describe("pool_replicas",
		"Size of a pool: wanted (desired), given to shards (sizes), instances by state, and Nodes that are ready.", "pool", "kind")
	poolRetiring = describe("retiring", "Instances of a pool that leave on purpose and are still there.", "pool")
	groupSize    = describe("shardgroup_size", "Instances that a shard shall keep of a group.", "group", "shard")
	onDemand     = describe("on_demand_machines", "Instances that were made one by one, by state.", "state")
	importGate   = describe("import_gate_open", "1 while groups of the servers become pools, 0 while a shard is waited for.")
	inventoryAge = describe("inventory_age_seconds", "Time since a shard last told everything that it has.", "shard")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, labels, nil)
}

// Objects collects what stands in objects and in the inventory. Its fields are required
// and do not change; the readers should answer from caches.
type Objects struct {
	Reader    client.Reader // of the operator's own kinds
	Nodes     client.Reader
	Namespace string
	Inventory *inventory.Store
	Now       func() time.Time
}

var _ prometheus.Collector = Objects{}

// Describe implements [prometheus.Collector].
func (Objects) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolReplicas, poolRetiring, groupSize, onDemand, importGate, inventoryAge} {
		out <- d
	}
}

// Collect implements [prometheus.Collector]. What cannot be read is left out.
func (o Objects) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	in := client.InNamespace(o.Namespace)
	var pools infrav1.NstanceMachinePoolList
	var groups infrav1.NstanceShardGroupList
	if o.Reader.List(ctx, &pools, in) == nil && o.Reader.List(ctx, &groups, in) == nil {
		o.pools(ctx, pools.Items, groups.Items, out)
	}
	var machines infrav1.NstanceMachineList
	if o.Reader.List(ctx, &machines, in) == nil {
		collectOnDemand(machines.Items, out)
	}
	var clusters infrav1.NstanceClusterList
	if o.Reader.List(ctx, &clusters, in) == nil && len(clusters.Items) == 1 {
		open := 0.0
		if meta.IsStatusConditionTrue(clusters.Items[0].Status.Conditions, infrav1.ConditionImportComplete) {
			open = 1
		}
		out <- gauge(importGate, open)
	}
	for _, shard := range o.Inventory.Names() {
		o.Inventory.Read(shard, func(s *inventory.Shard) {
			if at := s.State().InstancesAt; !at.IsZero() {
				out <- gauge(inventoryAge, o.Now().Sub(at).Seconds(), shard)
			}
		})
	}
}

func (o Objects) pools(ctx context.Context, pools []infrav1.NstanceMachinePool, groups []infrav1.NstanceShardGroup, out chan<- prometheus.Metric) {
	sizes, retiring := map[string]int{}, map[string]int{}
	for i := range groups {
		spec, pool := &groups[i].Spec, groups[i].Labels[infrav1.LabelPool]
		sizes[pool] += int(spec.Size)
		retiring[pool] += len(spec.Retiring)
		out <- gauge(groupSize, float64(spec.Size), spec.Group, spec.Shard)
	}
	ready := o.readyNodes(ctx)
	for i := range pools {
		p := &pools[i]
		counts := map[string]int{"sizes": sizes[p.Name]}
		if p.Status.DesiredReplicas != nil {
			counts["desired"] = int(*p.Status.DesiredReplicas)
		}
		for _, s := range p.Status.Shards {
			counts["running"] += int(s.Running)
			counts["pending"] += int(s.Pending)
			counts["draining"] += int(s.Draining)
			counts["nodes_ready"] += ready[place{p.Spec.Group, s.Name}]
		}
		for kind, n := range counts {
			out <- gauge(poolReplicas, float64(n), p.Name, kind)
		}
		out <- gauge(poolRetiring, float64(retiring[p.Name]), p.Name)
	}
}

// place is where instances of a group are.
type place struct{ group, shard string }

// readyNodes counts the Nodes that are ready, nil if they cannot be read.
func (o Objects) readyNodes(ctx context.Context) map[place]int {
	var nodes corev1.NodeList
	if o.Nodes.List(ctx, &nodes, client.HasLabels{infrav1.LabelGroup}) != nil {
		return nil
	}
	ready := map[place]int{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				ready[place{n.Labels[infrav1.LabelGroup], n.Labels[infrav1.LabelShard]}]++
			}
		}
	}
	return ready
}

func collectOnDemand(machines []infrav1.NstanceMachine, out chan<- prometheus.Metric) {
	states := map[string]int{}
	for i := range machines {
		if m := &machines[i]; m.Spec.Mode != infrav1.MachineManaged {
			state := string(m.Status.InstanceState)
			if state == "" {
				state = "none"
			}
			states[state]++
		}
	}
	for state, n := range states {
		out <- gauge(onDemand, float64(n), state)
	}
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}
