package manager

import (
	"context"
	"os"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/drain"
)

// drainFeature moves the work off the Nodes of instances that are to go.
var drainFeature = feature{
	name:  "drain",
	kinds: []kind{{version: infrav1.GroupVersion, object: &infrav1.NstanceMachine{}}},
	rights: []Right{
		to("get list watch patch", WorkloadCluster, core, "nodes"),
		to("list delete", WorkloadCluster, core, "pods"),
		to("create", WorkloadCluster, core, "pods/eviction"),
		to("list watch", WorkloadCluster, "apps", "daemonsets"),
		to("list watch", WorkloadCluster, "storage.k8s.io", "volumeattachments"),
		to("list watch", InNamespace, infrastructure, "nstancemachines"),
		to("patch", InNamespace, infrastructure, "nstancemachines/status"),
		to("list watch", InNamespace, clusterAPI, "machines"),
		to("get list watch", InNamespace, clusterAPI, "clusters"),
	},
	nodes: func(ctx context.Context, w wiring) error {
		w.shardState.reclaims.engine = w.drains(ctx)
		return w.shardState.reclaims.engine.SetupWithManager(w.mgr, w.workload.Cluster, w.shardState.hub, w.controllerOptions())
	},
}

// sources are those of the drain engine. Rollouts come last: their drains give way to all others.
func (w wiring) sources() []drain.Source {
	all := drain.Sources()
	if w.settings.Demand.Enabled {
		all = append(all, w.shardState.reclaims.requests.Source)
	}
	if w.settings.Hosts {
		all = append(all, w.shardState.hosts.drains.Source(all...))
		all = append(all, w.shardState.hosts.rollouts.Source(all...))
	}
	return all
}

func (w wiring) drains(ctx context.Context) *drain.Reconciler {
	return drain.New(drain.Options{
		Client: w.mgr.GetClient(), Namespace: w.settings.Namespace,
		Workload: w.workload.GetClient(), Live: w.workload.GetAPIReader(), Inventory: w.shardState.feed.Inventory(), Sources: w.sources(),
		Server: func(name string) (drain.Server, bool) { return w.connected().Shard(name) },
		Events: w.workload.GetEventRecorder(recorder), MachineEvents: w.mgr.GetEventRecorder(recorder),
		Evictions: rate.NewLimiter(rate.Limit(w.settings.EvictionQPS), max(1, int(w.settings.EvictionQPS))), Concurrency: w.settings.DrainConcurrency,
		Force: drain.Force(w.settings.DrainForce), Self: w.self(ctx),
		Observer: drain.Observer{
			Drained:      func(e drain.Ended) { w.metrics.Drained(e.Reason, e.Forced, e.Took, e.Slack, e.Left) },
			Pod:          w.metrics.PodMoved,
			Acknowledged: w.metrics.Acknowledged,
			Blocked:      w.metrics.DrainBlocked,
		},
	})
}

// self returns the UID of the operator's own Pod, "" if it runs in none of the cluster of
// its objects.
func (w wiring) self(ctx context.Context) types.UID {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	var pod corev1.Pod
	if err := w.live.Get(ctx, client.ObjectKey{Namespace: w.settings.Namespace, Name: name}, &pod); err != nil {
		return ""
	}
	return pod.UID
}
