package manager

import (
	"context"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/demand/podevents"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/operator/demand/volumes"
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
			Manager: w.mgr, Pods: w.workload.Cluster, API: w.workload.config, Settings: w.settings.Demand.Pods, CacheSync: w.settings.KubeAPI.CacheSyncTimeout, Penalties: w.penalties,
			Metrics: metrics.NewPods(ctrlmetrics.Registry), Events: w.workload.GetEventRecorder(recorder), Log: w.notices.log,
		})
	},
}

// podEventFeature tells of Pods that wait what is being bought for them, or why nothing can be, in demand mode.
var podEventFeature = feature{
	name: "events of Pods that wait",
	on:   func(s config.Settings) bool { return s.Demand.Enabled },
	rights: []Right{
		to("list watch", WorkloadCluster, core, "pods"),
		to("list watch", WorkloadCluster, demand, "capacityrequests"),
		to("list watch", WorkloadCluster, demand, "upcomingnodes"),
		to("list watch", WorkloadCluster, demand, "availablecapacities"),
	},
	pods: func(config.Settings) func(from, into *corev1.Pod) { return podevents.Keep },
	nodes: func(_ context.Context, w wiring) error {
		o := podevents.Options{
			Cache: w.workload.GetCache(), Events: w.workload.GetEventRecorder(recorder), Limiter: rate.NewLimiter(podEventRate, podEventBurst),
		}
		if w.settings.Demand.PodSource != config.PodSourceCR {
			o.Translate = w.translatePod
		}
		return podevents.New(o).SetupWithManager(w.mgr, w.workload.Cluster, w.controllerOptions())
	},
}

// How many events there are at most about all Pods that wait, in a second and at once: the API server has to
// store each.
const (
	podEventRate  = 10
	podEventBurst = 100
)

// translatePod says what a Pod asks for that counts by itself; false: it asks for nothing, or what is known of its
// volumes cannot be read.
func (w wiring) translatePod(ctx context.Context, pod *corev1.Pod) (demandv1.CapacityRequestSpec, bool) {
	if _, excluded := translate.Excluded(pod); excluded || translate.Terminal(pod) {
		return demandv1.CapacityRequestSpec{}, false
	}
	options := w.translation()
	var known translate.Volumes
	if options.VolumeTopology {
		var err error
		if known, err = volumes.Of(ctx, w.workload.GetCache(), pod); err != nil {
			return demandv1.CapacityRequestSpec{}, false
		}
	}
	return translate.Build(pod, known, options).Spec, true
}
