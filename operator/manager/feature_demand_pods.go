package manager

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/config"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/poddemand"
)

// podRequestFeature writes a CapacityRequest for each Pod, in demand mode.
var podRequestFeature = feature{
	name:   "capacity requests of Pods",
	on:     func(s config.Settings) bool { return s.Demand.WritesRequests() },
	scheme: demandv1.AddToScheme,
	kinds:  []kind{{version: demandv1.GroupVersion, object: &demandv1.CapacityRequest{}, atNodes: true, shared: true}},
	rights: []Right{
		to("list watch", WorkloadCluster, core, "pods"),
		to("list watch", WorkloadCluster, core, "persistentvolumes"),
		to("list watch", WorkloadCluster, core, "persistentvolumeclaims"),
		to("list watch", WorkloadCluster, "storage.k8s.io", "storageclasses"),
		to("list watch create patch deletecollection", WorkloadCluster, demand, "capacityrequests"),
		to("patch", WorkloadCluster, demand, "capacityrequests/status"),
	},
	pods: func(s config.Settings) func(from, into *corev1.Pod) { return poddemand.Keep(s.Demand.Pods) },
	nodes: func(ctx context.Context, w wiring) error {
		return poddemand.Add(ctx, poddemand.Parts{
			Manager: w.mgr, Pods: w.workload.Cluster, API: w.workload.config, Settings: w.settings.Demand.Pods, Penalties: w.penalties,
			Metrics: metrics.NewPods(ctrlmetrics.Registry), Events: w.workload.GetEventRecorder(recorder), Log: w.notices.log,
		})
	},
}
