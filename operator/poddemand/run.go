package poddemand

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/compact"
	"nstance.dev/operator/config"
	"nstance.dev/operator/demand/objects"
	"nstance.dev/operator/demand/penaltyfile"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/program"
)

// Name is that of the program, of its Lease, and under which it sends events.
const Name = "nstance-pod-demand"

// shutdownTimeout is how long loops get to end after SIGTERM. A Pod has more.
const shutdownTimeout = 8 * time.Second

// Options are what a process has beside its settings.
type Options struct {
	Version string
	Log     *slog.Logger // required
}

// Run runs the controller in a process of its own until ctx ends. The error says why it ended
// before: a process that is started again may do better.
func Run(ctx context.Context, s config.Settings, o Options) error {
	api, err := program.RESTConfig(s, Name+"/"+o.Version)
	if err != nil {
		return err
	}
	penalties, err := penaltyfile.Open(s.Demand.Pods.PenaltyFile, o.Log)
	if err != nil {
		return err
	}
	d, err := discovery.NewDiscoveryClientForConfig(api)
	if err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	if err := program.AwaitAPI(ctx, api, s.ProbeAddress, o.Log); err != nil {
		return endOf(ctx, err)
	}
	if err := program.AwaitKinds(ctx, kinds, d, s.ProbeAddress, o.Log); err != nil {
		return endOf(ctx, err)
	}
	managed, err := managerOptions(s, o.Log)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(api, managed)
	if err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	err = Add(ctx, Parts{
		Manager: mgr, Pods: mgr, API: api, Settings: s.Demand.Pods, CacheSync: s.KubeAPI.CacheSyncTimeout, Penalties: penalties,
		Metrics: metrics.NewPods(ctrlmetrics.Registry), Events: mgr.GetEventRecorder(Name), Log: o.Log,
	})
	if err != nil {
		return err
	}
	err = errors.Join(
		mgr.Add(manager.RunnableFunc(penalties.Run)),
		mgr.AddHealthzCheck("process", healthz.Ping), mgr.AddReadyzCheck("process", healthz.Ping),
	)
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return endOf(ctx, mgr.Start(ctx))
}

// kinds are those without which it cannot work.
var kinds = []program.Kind{{
	Version: demandv1.GroupVersion, Name: "CapacityRequest", Remedy: "install the chart with demand.enabled, or the definitions of demand mode",
}}

// endOf is nil if a process ended because it was asked to.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

func managerOptions(s config.Settings, log *slog.Logger) (ctrl.Options, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), demandv1.AddToScheme(scheme)); err != nil {
		return ctrl.Options{}, fmt.Errorf("scheme: %w", err)
	}
	timeout := shutdownTimeout
	return ctrl.Options{
		Scheme: scheme, Logger: logr.FromSlogHandler(log.Handler()), MapperProvider: objects.Mapper, Cache: cacheOptions(s.Demand.Pods),
		LeaderElection: s.LeaderElect, LeaderElectionID: Name, LeaderElectionNamespace: s.Namespace, LeaderElectionReleaseOnCancel: true,
		HealthProbeBindAddress: s.ProbeAddress, PprofBindAddress: s.PprofAddress, Metrics: program.Metrics(s), GracefulShutdownTimeout: &timeout,
		Controller: program.Controllers(s),
	}, nil
}

// cacheOptions keep what the controller reads, of all namespaces.
func cacheOptions(s config.DemandPods) cache.Options {
	o := cache.Options{NewInformer: compact.Informers(objects.Paged(s.PageSize)), DefaultTransform: cache.TransformStripManagedFields(), ByObject: Objects(s)}
	keep := Keep(s)
	o.ByObject[&corev1.Pod{}] = cache.ByObject{Transform: func(of any) (any, error) {
		from, ok := of.(*corev1.Pod)
		if !ok {
			return of, nil
		}
		into := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: from.Namespace, Name: from.Name, UID: from.UID, ResourceVersion: from.ResourceVersion}}
		keep(from, into)
		return into, nil
	}}
	if s.VolumeTopology {
		o.ByObject[&corev1.PersistentVolume{}] = objects.Volumes()
		o.ByObject[&corev1.PersistentVolumeClaim{}] = objects.Claims()
	}
	return o
}
