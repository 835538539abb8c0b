package manager

import (
	"context"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/importer"
)

// importFeature makes pools of groups that the servers have.
var importFeature = feature{
	name: "import",
	kinds: []kind{
		{version: infrav1.GroupVersion, object: &infrav1.NstanceMachinePool{}},
		{version: infrav1.GroupVersion, object: &infrav1.NstanceShardGroup{}},
		{version: clusterv1.GroupVersion, object: &clusterv1.MachinePool{}},
	},
	rights: []Right{
		to("get list watch create", InNamespace, infrastructure, "nstancemachinepools"),
		to("get list watch create", InNamespace, infrastructure, "nstanceshardgroups"),
		to("get list watch create", InNamespace, clusterAPI, "machinepools"),
		to("get list watch patch", InNamespace, infrastructure, "nstanceclusters"),
		to("patch", InNamespace, infrastructure, "nstanceclusters/status"),
	},
	objects: func(_ context.Context, w wiring) error { return w.imports().SetupWithManager(w.mgr, w.shardState.hub) },
}

func (w wiring) imports() *importer.Reconciler {
	return &importer.Reconciler{
		Client: w.mgr.GetClient(), Live: w.live, Namespace: w.settings.Namespace, Cluster: w.cluster,
		Settings: func() importer.Settings {
			c := w.config().Import
			return importer.Settings{Enabled: c.Enabled, PerShard: c.Pools == config.PerShard, Exclude: c.Exclude}
		},
		Shards:     func() []string { return w.config().Names() },
		Connection: connection(w.connected()), Inventory: w.shardState.feed.Inventory(), Events: w.mgr.GetEventRecorder(recorder), Now: time.Now,
	}
}
