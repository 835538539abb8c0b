package manager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"nstance.dev/operator/config"
	demandnodes "nstance.dev/operator/controllers/demand/nodes"
	"nstance.dev/operator/controllers/demand/reclaim"
	"nstance.dev/operator/demand/fit"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/nodes"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// demandNodeFeature is what demand mode does with Nodes: they are reported, given back when a
// shard asks for them, and deleted when their machines have left. demandFeature starts it.
var demandNodeFeature = feature{
	name: "demand mode, Nodes",
	on:   func(s config.Settings) bool { return s.Demand.Enabled },
	rights: []Right{
		to("get list watch patch delete", WorkloadCluster, core, "nodes"),
		to("list watch", WorkloadCluster, core, "pods"),
		to("list watch", WorkloadCluster, core, "namespaces"),
		to("list watch", WorkloadCluster, "apps", "daemonsets"),
		to("list watch", WorkloadCluster, demand, "upcomingnodes"),
		to("patch", WorkloadCluster, demand, "upcomingnodes/status"),
	},
	pods: func(config.Settings) func(from, into *corev1.Pod) { return reclaim.Keep },
}

// reclaims is what the drain engine and demand mode have in common.
type reclaims struct {
	requests reclaim.Requests
	engine   *drain.Reconciler // set once drains have started, which is before demand mode
}

// sources are those of the drain engine.
func (w wiring) sources() []drain.Source {
	if !w.settings.Demand.Enabled {
		return drain.Sources()
	}
	return append(drain.Sources(), w.reclaims.requests.Source)
}

// demandNodes are the controllers of Nodes in demand mode.
type demandNodes struct {
	reports *demandnodes.Reports
	reclaim *reclaim.Reconciler
	nodes   *demandnodes.Reconciler
}

// resynced hears that a shard has to be told of all Nodes of its machines.
func (d demandNodes) resynced(shard string) {
	d.reclaim.Resynced(shard)
	d.nodes.Resynced(shard)
}

// demandNodes returns the controllers of Nodes in demand mode, which report to shards by a function.
func (w wiring) demandNodes(ctx context.Context, counts *metrics.Demand, report func(shard string, reports []*demandpb.NodeReport) bool) (demandNodes, error) {
	objects := w.workload.Cluster
	for _, register := range []func() error{
		func() error { return nodes.RegisterUpcoming(ctx, objects.GetFieldIndexer()) },
		func() error { return nodes.RegisterPods(ctx, objects.GetFieldIndexer()) },
	} {
		if err := register(); err != nil {
			return demandNodes{}, err
		}
	}
	reports := demandnodes.NewReports(report)
	inventory, recorder := w.shardState.feed.Inventory(), objects.GetEventRecorder(recorder)
	s := w.settings.Demand.Reclaim
	return demandNodes{
		reports: reports,
		reclaim: reclaim.New(&w.reclaims.requests, reclaim.Options{
			Workload: objects.GetClient(), Live: objects.GetAPIReader(), Machines: w.mgr.GetClient(), Namespace: w.settings.Namespace, Inventory: inventory,
			Report: report, Wake: w.reclaims.engine.Wake, Fit: fit.Options{AnnotationsAlone: !s.FitCheck, ForeignAnnotations: s.ForeignAnnotations},
			Grace: w.settings.Demand.Sessions.DrainGrace, Count: func(o reclaim.Outcome) { counts.Reclaimed(string(o)) }, Events: recorder, Log: w.notices.log,
		}),
		nodes: demandnodes.New(demandnodes.Options{
			Workload: objects.GetClient(), Live: objects.GetAPIReader(), Inventory: inventory, Reports: reports, Home: w.settings.Namespace + "/" + w.cluster,
			SetProviderID: w.settings.SetNodeProviderID, Events: recorder, Log: w.notices.log,
		}),
	}, nil
}

// start starts the controllers.
func (d demandNodes) start(w wiring) error {
	if err := w.mgr.Add(d.reports); err != nil {
		return fmt.Errorf("reports of Nodes: %w", err)
	}
	if err := d.reclaim.SetupWithManager(w.mgr, w.workload.Cluster, w.controllerOptions()); err != nil {
		return err
	}
	return d.nodes.SetupWithManager(w.mgr, w.workload.Cluster, w.shardState.hub, w.controllerOptions())
}
