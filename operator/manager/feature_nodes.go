package manager

import (
	"context"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/node"
)

// nodeFeature writes down which Node is which instance's, and removes Nodes of instances that
// have ended.
var nodeFeature = feature{
	name:  "nodes",
	kinds: []kind{{version: infrav1.GroupVersion, object: &infrav1.NstanceMachine{}}},
	rights: []Right{
		to("get list watch patch delete", WorkloadCluster, core, "nodes"),
		to("list watch", InNamespace, infrastructure, "nstancemachines"),
		to("patch", InNamespace, infrastructure, "nstancemachines/status"),
		to("list watch", InNamespace, clusterAPI, "machines"),
		to("patch", InNamespace, clusterAPI, "machines/status"),
		to("get list watch", InNamespace, clusterAPI, "clusters"),
	},
	nodes: func(_ context.Context, w wiring) error {
		return node.Setup(w.mgr, w.workload.Cluster, w.shardState.hub, node.Options{
			Client: w.mgr.GetClient(), Namespace: w.settings.Namespace, Cluster: w.cluster, Workload: w.workload.GetClient(), Inventory: w.shardState.feed.Inventory(),
			MachineEvents: w.mgr.GetEventRecorder(recorder), Events: w.workload.GetEventRecorder(recorder),
			SetProviderID: w.settings.SetNodeProviderID, DeleteEnded: w.settings.DeleteOrphanNodes, Demand: w.settings.Demand.Enabled,
		}, w.controllerOptions)
	},
}
