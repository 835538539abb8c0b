package poddemand

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/backoff"
	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/demand/capacityrequest"
	"nstance.dev/operator/demand/objects"
	"nstance.dev/operator/demand/penaltyfile"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/program"
)

// Parts are what the controller is put together from; all are required.
type Parts struct {
	Manager ctrl.Manager
	// Pods is the cluster that the Pods are in; its caches keep what [Keep] and [Objects] say.
	Pods      cluster.Cluster
	API       *rest.Config // of that cluster
	Settings  config.DemandPods
	CacheSync time.Duration     // at most, until everything was listed
	Penalties *penaltyfile.File // which the caller runs
	Metrics   *metrics.Pods
	Events    events.EventRecorder
	Log       *slog.Logger
}

// Translation is how Pods are translated, with the penalties as they are now.
func Translation(s config.DemandPods, penalties *penaltyfile.File) translate.Options {
	return translate.Options{
		Alternatives: s.Alternatives, VolumeTopology: s.VolumeTopology, PenaltyPrefixes: s.PenaltyPrefixes, Classes: penalties.Classes(),
	}
}

// Keep returns what puts into a cache of Pods what the controller reads of one.
func Keep(s config.DemandPods) func(from, into *corev1.Pod) {
	return capacityrequest.Keep(translate.Options{PenaltyPrefixes: s.PenaltyPrefixes})
}

// Objects are the caches of all else that the controller reads.
func Objects(s config.DemandPods) map[client.Object]cache.ByObject {
	all := map[client.Object]cache.ByObject{&demandv1.CapacityRequest{}: objects.Requests()}
	if s.VolumeTopology {
		all[&storagev1.StorageClass{}] = objects.Classes()
	}
	return all
}

// Add has the manager run the controller.
func Add(ctx context.Context, p Parts) error {
	writer, err := client.New(program.Limited(p.API, p.Settings.QPS, p.Settings.Burst), client.Options{
		Scheme: p.Pods.GetScheme(), Mapper: p.Pods.GetRESTMapper(),
	})
	if err != nil {
		return fmt.Errorf("client for capacity requests: %w", err)
	}
	return p.add(ctx, writer)
}

// add has the manager run the controller, which writes by a client.
func (p Parts) add(ctx context.Context, writer client.Client) error {
	changed := make(chan capacityrequest.ClassesChanged)
	p.Penalties.OnChange(func(classes []string) {
		select {
		case changed <- capacityrequest.ClassesChanged{Object: classes}:
		case <-ctx.Done():
		}
	})
	return p.reconciler(writer).SetupWithManager(ctx, p.Manager, p.Pods, changed, p.controller())
}

func (p Parts) reconciler(writer client.Client) *capacityrequest.Reconciler {
	return capacityrequest.New(capacityrequest.Options{
		Cache: p.Pods.GetClient(), Writer: writer, Events: p.Events, Log: p.Log,
		Translation: func() translate.Options { return Translation(p.Settings, p.Penalties) },
		Observer: capacityrequest.Observer{
			Reconciled: func(o capacityrequest.Outcome) { p.Metrics.Reconciled(string(o)) },
			Warned:     func(r translate.Reason) { p.Metrics.Warned(string(r)) },
			Made:       func(after time.Duration) { p.Metrics.Requested(after) },
		},
	})
}

func (p Parts) controller() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: p.Settings.Workers, CacheSyncTimeout: p.CacheSync, RateLimiter: backoff.Limiter(),
	}
}
