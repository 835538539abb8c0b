package manager

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machine"
)

// machineFeature keeps NstanceMachines and instances in step.
var machineFeature = feature{
	name: "machines",
	kinds: []kind{
		{version: infrav1.GroupVersion, object: &infrav1.NstanceMachine{}},
		{version: infrav1.GroupVersion, object: &infrav1.NstanceShardGroup{}},
		{version: clusterv1.GroupVersion, object: &clusterv1.Machine{}, shared: true},
	},
	rights: []Right{
		to("get list watch patch delete", InNamespace, infrastructure, "nstancemachines"),
		to("patch", InNamespace, infrastructure, "nstancemachines/status"),
		to("get list watch", InNamespace, infrastructure, "nstanceshardgroups"),
		to("get list watch", InNamespace, infrastructure, "nstancemachinepools"),
		to("list watch patch delete", InNamespace, clusterAPI, "machines"),
		to("get list watch", InNamespace, clusterAPI, "clusters"),
		to("get list watch", WorkloadCluster, core, "nodes"),
	},
	nodes: func(_ context.Context, w wiring) error {
		return machine.New(w.machines()).SetupWithManager(w.mgr, w.workload.Cluster, w.shardState.hub, w.controllerOptions())
	},
}

func (w wiring) machines() machine.Options {
	return machine.Options{
		Client: w.mgr.GetClient(), Live: w.live, Nodes: w.workload.GetClient(), LiveNodes: w.workload.GetAPIReader(), Inventory: w.shardState.feed.Inventory(), CoolOff: &w.shardState.coolOff,
		Shards: func() []machine.Named {
			var all []machine.Named
			for _, name := range w.config().Names() {
				named := machine.Named{Name: name}
				if s, ok := w.connected().Shard(name); ok {
					named.Server = s
				}
				all = append(all, named)
			}
			return all
		},
		Events: w.mgr.GetEventRecorder(recorder), Unsent: w.shardState.unsent, ProvisionTimeout: w.settings.OnDemandProvisionTimeout, Leaked: w.metrics.Leaked,
	}
}
