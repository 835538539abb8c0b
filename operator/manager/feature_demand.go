package manager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/config"
	demandnodes "nstance.dev/operator/controllers/demand/nodes"
	"nstance.dev/operator/controllers/demand/reclaim"
	"nstance.dev/operator/controllers/demand/rollup"
	"nstance.dev/operator/demand/fit"
	"nstance.dev/operator/demandmode"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/poddemand"
	"nstance.dev/operator/program"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// demandFeature is demand mode: the shards are told what the cluster needs, and Kubernetes shows
// what they make of it.
var demandFeature = feature{
	name:   "demand mode",
	on:     func(s config.Settings) bool { return s.Demand.Enabled },
	scheme: demandv1.AddToScheme,
	kinds: []kind{
		{version: demandv1.GroupVersion, object: &demandv1.CapacityRequest{}, atNodes: true, shared: true},
		{version: demandv1.GroupVersion, object: &demandv1.UpcomingNode{}, atNodes: true, shared: true},
		{version: demandv1.GroupVersion, object: &demandv1.AvailableCapacity{}, atNodes: true, shared: true},
	},
	rights: []Right{
		to("list watch", WorkloadCluster, core, "pods"),
		to("list watch", WorkloadCluster, core, "nodes"),
		to("list watch", WorkloadCluster, "apps", "daemonsets"),
		to("list watch", WorkloadCluster, demand, "capacityrequests"),
		to("patch", WorkloadCluster, demand, "capacityrequests/status"),
		to("get list watch create patch delete", WorkloadCluster, demand, "upcomingnodes"),
		to("patch", WorkloadCluster, demand, "upcomingnodes/status"),
		to("get list create patch delete", WorkloadCluster, demand, "availablecapacities"),
		to("patch", WorkloadCluster, demand, "availablecapacities/status"),
	},
	pods: func(config.Settings) func(from, into *corev1.Pod) { return rollup.Keep },
	nodes: func(ctx context.Context, w wiring) error {
		s := w.settings.Demand.Sessions
		writer, err := client.New(program.Limited(w.workload.config, s.QPS, s.Burst), client.Options{
			Scheme: w.workload.GetScheme(), Mapper: w.workload.GetRESTMapper(),
		})
		if err != nil {
			return fmt.Errorf("client for what shards say: %w", err)
		}
		counts := metrics.NewDemand(ctrlmetrics.Registry)
		var mode *demandmode.Mode
		given, err := w.demandNodes(ctx, counts, func(shard string, reports []*demandpb.NodeReport) bool { return mode.Report(shard, reports) })
		if err != nil {
			return err
		}
		mode = demandmode.New(demandmode.Parts{
			Settings: w.settings.Demand, Config: w.config, Connections: w.connected, Inventory: w.shardState.feed.Inventory(),
			Objects: w.workload.GetCache(), Writer: writer, Translation: w.translation, Bootstrap: w.joining.Render,
			Reclaim: given.reclaim.Reclaim, Resynced: given.resynced, RolledUp: given.nodes.RolledUp,
			Metrics: counts, Warn: w.notices.warn, Log: w.notices.log,
		})
		if err := given.start(w); err != nil {
			return err
		}
		w.penalties.OnChange(func([]string) { mode.TranslationChanged() })
		if err := w.mgr.Add(manager.RunnableFunc(mode.Run)); err != nil {
			return fmt.Errorf("demand mode: %w", err)
		}
		return nil
	},
}

// demandPodsFeature has Pods count by themselves in demand mode: where they have no
// CapacityRequest yet, or never have one.
var demandPodsFeature = feature{
	name: "demand mode, Pods",
	on:   func(s config.Settings) bool { return s.Demand.Enabled && s.Demand.PodSource != config.PodSourceCR },
	rights: []Right{
		to("list watch", WorkloadCluster, core, "persistentvolumes"),
		to("list watch", WorkloadCluster, core, "persistentvolumeclaims"),
		to("list watch", WorkloadCluster, "storage.k8s.io", "storageclasses"),
	},
	pods: func(s config.Settings) func(from, into *corev1.Pod) { return poddemand.Keep(s.Demand.Pods) },
}

// bootstrapFeature follows the template of what makes machines join, in demand mode.
var bootstrapFeature = feature{
	name: "bootstrap of machines",
	on:   func(s config.Settings) bool { return s.Demand.Enabled },
	objects: func(_ context.Context, w wiring) error {
		return w.mgr.Add(manager.RunnableFunc(w.joining.Run))
	},
}

// joinTokenFeature keeps a token with which machines join the cluster, while the template calls
// for one. It neither reads nor lists: who can read what it may create has the tokens of all
// service accounts of kube-system.
var joinTokenFeature = feature{
	name:   "join tokens",
	on:     func(s config.Settings) bool { return s.Demand.MakesJoinTokens() },
	rights: []Right{to("create delete", SystemOfWorkload, core, "secrets")},
	nodes: func(ctx context.Context, w wiring) error {
		failed := func(err error) {
			w.notices.warn(ctx, "JoinTokenFailed", "Renew", "machines cannot join the cluster with a new token: %v", err)
		}
		return w.mgr.Add(w.joining.Keep(w.settings, w.config(), w.workload.GetClient(), failed, w.notices.log))
	},
}

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
		reclaim: reclaim.New(&w.shardState.reclaims.requests, reclaim.Options{
			Workload: objects.GetClient(), Live: objects.GetAPIReader(), Machines: w.mgr.GetClient(), Namespace: w.settings.Namespace, Inventory: inventory,
			Report: report, Wake: w.shardState.reclaims.engine.Wake, Fit: fit.Options{AnnotationsAlone: !s.FitCheck, ForeignAnnotations: s.ForeignAnnotations},
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
