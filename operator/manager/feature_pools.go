package manager

import (
	"context"
	"errors"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/machinepool"
	"nstance.dev/operator/controllers/shardgroup"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/webhooks"
)

// poolFeature brings the sizes of MachinePools to the shards.
var poolFeature = feature{
	name: "machine pools",
	kinds: []kind{
		{version: infrav1.GroupVersion, object: &infrav1.NstanceMachinePool{}},
		{version: infrav1.GroupVersion, object: &infrav1.NstanceShardGroup{}},
		{version: infrav1.GroupVersion, object: &infrav1.NstanceMachine{}},
		{version: clusterv1.GroupVersion, object: &clusterv1.MachinePool{}},
		{version: clusterv1.GroupVersion, object: &clusterv1.Machine{}, shared: true},
	},
	rights: []Right{
		to("get list watch patch", InNamespace, infrastructure, "nstancemachinepools"),
		to("patch", InNamespace, infrastructure, "nstancemachinepools/status"),
		to("update", InNamespace, infrastructure, "nstancemachinepools/finalizers"), // its groups hold up its deletion
		to("get list watch create patch delete", InNamespace, infrastructure, "nstanceshardgroups"),
		to("patch", InNamespace, infrastructure, "nstanceshardgroups/status"),
		to("list watch create patch delete", InNamespace, infrastructure, "nstancemachines"),
		to("get list watch create patch delete", InNamespace, clusterAPI, "machinepools"), // that of a pool that becomes a demand pool is removed
		to("list watch patch delete", InNamespace, clusterAPI, "machines"),
		to("get list watch patch", InNamespace, infrastructure, "nstanceclusters"), // which groups are left behind
		to("get list watch", InNamespace, clusterAPI, "clusters"),
	},
	webhooks: func(mgr ctrl.Manager, _ config.Settings) error {
		return ctrl.NewWebhookManagedBy(mgr, &infrav1.NstanceMachinePool{}).
			WithValidator(webhooks.PoolValidator{Reader: mgr.GetClient()}).
			Complete()
	},
	objects: func(_ context.Context, w wiring) error {
		return errors.Join(
			w.pools().SetupWithManager(w.mgr, w.shardState.hub, w.controllerOptions()),
			w.shardGroups().SetupWithManager(w.mgr, w.shardState.hub, w.controllerOptions()),
		)
	},
}

func (w wiring) pools() *machinepool.Reconciler {
	return &machinepool.Reconciler{
		Client: w.mgr.GetClient(), Live: w.live, Connection: connection(w.connected()), Inventory: w.shardState.feed.Inventory(), CoolOff: &w.shardState.coolOff,
		Events: w.mgr.GetEventRecorder(recorder), Now: time.Now, Unsent: w.shardState.unsent,
		Names:      machinepool.Names{Cluster: w.cluster, ClusterID: w.config().ClusterID, Tenant: w.config().Tenant},
		AsMachines: w.settings.MachinePoolMachines, RedirectAfter: w.settings.RedirectAfter - w.settings.UnreachableGrace,
		MemoryShare: w.settings.MemoryFactor, Traces: w.traces,
		Redirected: func(group, shard string, why machinepool.Redirection) {
			w.metrics.GrowthRedirected(group, shard, string(why))
		},
	}
}

func (w wiring) shardGroups() *shardgroup.Reconciler {
	return &shardgroup.Reconciler{
		Client: w.mgr.GetClient(), Live: w.live, Inventory: w.shardState.feed.Inventory(), CoolOff: &w.shardState.coolOff, Events: w.mgr.GetEventRecorder(recorder), Now: time.Now,
		Server: func(name string) (shardgroup.Server, bool) { return w.connected().Shard(name) },
		Unsent: w.shardState.unsent, Traces: w.traces,
	}
}

// connection returns what says how the operator stands with a shard.
func connection(set *shards.Set) func(shard string) (shards.Status, bool) {
	return func(name string) (shards.Status, bool) {
		s, ok := set.Shard(name)
		if !ok {
			return shards.Status{}, false
		}
		return s.Status(), true
	}
}
