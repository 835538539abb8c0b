package metrics

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/inventory"
)

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

// collected are the metrics of Objects.
var collected = []Metric{poolReplicas, poolRetiring, groupSize, groups, onDemand, importGate, inventoryAge}

// Describe implements [prometheus.Collector].
func (Objects) Describe(out chan<- *prometheus.Desc) {
	for _, m := range collected {
		out <- m.desc()
	}
}

// Collect implements [prometheus.Collector]. What cannot be read is left out.
func (o Objects) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	in := []client.ListOption{client.InNamespace(o.Namespace), client.UnsafeDisableDeepCopy} // nothing is changed
	var pools infrav1.NstanceMachinePoolList
	var parts infrav1.NstanceShardGroupList
	if o.Reader.List(ctx, &pools, in...) == nil && o.Reader.List(ctx, &parts, in...) == nil {
		o.pools(ctx, pools.Items, parts.Items, out)
		collectConditions(parts.Items, out)
	}
	var machines infrav1.NstanceMachineList
	if o.Reader.List(ctx, &machines, in...) == nil {
		collectOnDemand(machines.Items, out)
	}
	var clusters infrav1.NstanceClusterList
	if o.Reader.List(ctx, &clusters, in...) == nil && len(clusters.Items) == 1 {
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

func (o Objects) pools(ctx context.Context, pools []infrav1.NstanceMachinePool, parts []infrav1.NstanceShardGroup, out chan<- prometheus.Metric) {
	sizes, retiring := map[string]int{}, map[string]int{}
	for i := range parts {
		spec, pool := &parts[i].Spec, parts[i].Labels[infrav1.LabelPool]
		sizes[pool] += int(spec.SizeOrZero())
		retiring[pool] += len(spec.Retiring)
		out <- gauge(groupSize, float64(spec.SizeOrZero()), spec.Group, spec.Shard)
	}
	ready, known := o.readyNodes(ctx)
	for i := range pools {
		p := &pools[i]
		label := capi.Label(p.Name)
		counts := map[string]int{"sizes": sizes[label], "running": 0, "pending": 0, "draining": 0}
		if known {
			counts["nodes_ready"] = 0
		}
		if p.Status.DesiredReplicas != nil {
			counts["desired"] = int(*p.Status.DesiredReplicas)
		}
		for _, s := range p.Status.Shards {
			counts["running"] += int(s.Running)
			counts["pending"] += int(s.Pending)
			counts["draining"] += int(s.Draining)
			if known {
				counts["nodes_ready"] += ready[shardGroup{p.Spec.Group, s.Name}]
			}
		}
		for kind, n := range counts {
			out <- gauge(poolReplicas, float64(n), p.Name, kind)
		}
		out <- gauge(poolRetiring, float64(retiring[label]), p.Name)
	}
}

// shardGroup is a group on one shard.
type shardGroup struct{ group, shard string }

// readyNodes counts the Nodes that are ready; false: they cannot be read.
func (o Objects) readyNodes(ctx context.Context) (map[shardGroup]int, bool) {
	var nodes corev1.NodeList
	if o.Nodes.List(ctx, &nodes, client.HasLabels{infrav1.LabelGroup}, client.UnsafeDisableDeepCopy) != nil {
		return nil, false
	}
	ready := map[shardGroup]int{}
	for i := range nodes.Items {
		if in, ok := readyIn(&nodes.Items[i]); ok {
			ready[in]++
		}
	}
	return ready, true
}

// readyIn returns what a Node belongs to that is ready and of a group; false: it is not.
func readyIn(n *corev1.Node) (shardGroup, bool) {
	group, ours := n.Labels[infrav1.LabelGroup]
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return shardGroup{group, n.Labels[infrav1.LabelShard]}, ours && ready
}

// collectConditions counts what is wrong with parts of pools, also what is nowhere.
func collectConditions(parts []infrav1.NstanceShardGroup, out chan<- prometheus.Metric) {
	counts := map[string]int{}
	for i := range parts {
		for _, c := range parts[i].Status.Conditions {
			switch {
			case c.Type == infrav1.ConditionReady || c.Status == metav1.ConditionTrue:
			case c.Type == infrav1.ConditionShardReachable && c.Status == metav1.ConditionFalse:
				counts[infrav1.ReasonUnreachable]++ // why, the condition itself says
			default:
				counts[c.Reason]++
			}
		}
	}
	for _, condition := range byCondition.Values {
		out <- gauge(groups, float64(counts[condition]), condition)
	}
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
	for _, state := range byInstance.Values {
		out <- gauge(onDemand, float64(states[state]), state)
	}
}
