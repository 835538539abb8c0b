package manager

import (
	"context"
	"fmt"
	"time"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"nstance.dev/operator/metrics"
)

// metricsFeature counts what stands in objects, and times how pools grow.
var metricsFeature = feature{
	name: "metrics of objects",
	rights: []Right{
		to("get list watch", InNamespace, infrastructure, "nstancemachinepools"),
		to("list watch", InNamespace, infrastructure, "nstancemachines"),
		to("list watch", WorkloadCluster, core, "nodes"),
	},
	nodes: func(_ context.Context, w wiring) error {
		objects := metrics.Objects{
			Reader: w.mgr.GetClient(), Nodes: w.workload.GetClient(), Namespace: w.settings.Namespace, Inventory: w.shardState.feed.Inventory(), Now: time.Now,
		}
		if err := ctrlmetrics.Registry.Register(objects); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		growth := metrics.Growth{
			Pools: w.mgr.GetCache(), Nodes: w.workload.GetCache(), Namespace: w.settings.Namespace, Now: time.Now, Ready: w.metrics.PoolReady,
		}
		if err := w.mgr.Add(growth); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		return nil
	},
}
