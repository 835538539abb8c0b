package manager

import (
	"context"
	"errors"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/providererror"
)

// errorFeature passes on what the shards report of their providers.
var errorFeature = feature{
	name:  "provider errors",
	kinds: []kind{{version: infrav1.GroupVersion, object: &infrav1.NstanceMachine{}}},
	rights: []Right{
		to("list watch", InNamespace, infrastructure, "nstancemachines"),
		to("patch", InNamespace, infrastructure, "nstancemachines/status"),
		to("get list watch", InNamespace, infrastructure, "nstanceshardgroups"),
		to("get list watch", InNamespace, infrastructure, "nstanceclusters"),
	},
	objects: func(_ context.Context, w wiring) error {
		reporter := providererror.New(providererror.Options{
			Client: w.mgr.GetClient(), Namespace: w.settings.Namespace, Cluster: w.cluster, Events: w.mgr.GetEventRecorder(recorder), CoolOff: &w.shardState.coolOff,
			Count: func(shard, class string, _ bool) { w.metrics.ProviderError(shard, class) },
		})
		w.shardState.feed.OnError(reporter.Report)
		return errors.Join(w.mgr.Add(reporter), reporter.SetupWithManager(w.mgr, w.controllerOptions()))
	},
}
