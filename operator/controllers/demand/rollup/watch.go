package rollup

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/tally"
)

// Watch has the controller hear of all objects of a cache, and returns once it has heard of those
// that exist. It hears of them until ctx ends.
func (c *Controller) Watch(ctx context.Context, objects cache.Informers) error {
	watches := []watch{
		{&corev1.Pod{}, hears(c.Pod)},
		{&demandv1.CapacityRequest{}, hears(c.Request)},
		{&corev1.Node{}, hears(c.Node)},
		{&demandv1.UpcomingNode{}, hears(c.UpcomingNode)},
	}
	if c.opts.Overheads {
		watches = append(watches, watch{&appsv1.DaemonSet{}, hears(func(*appsv1.DaemonSet, bool) { c.DaemonSets() })})
	}
	if c.opts.Tally.Source != tally.Requests && c.opts.Translation().VolumeTopology {
		watches = append(watches,
			watch{&corev1.PersistentVolumeClaim{}, hears(func(claim *corev1.PersistentVolumeClaim, _ bool) { c.Claim(client.ObjectKeyFromObject(claim)) })},
			watch{&corev1.PersistentVolume{}, hears(func(v *corev1.PersistentVolume, _ bool) { c.Volume(v) })},
			watch{&storagev1.StorageClass{}, hears(func(*storagev1.StorageClass, bool) { c.StorageClasses() })})
	}
	var synced []toolscache.InformerSynced
	for _, w := range watches {
		informer, err := objects.GetInformer(ctx, w.of)
		if err != nil {
			return fmt.Errorf("watch %T: %w", w.of, err)
		}
		registration, err := informer.AddEventHandler(w.handler)
		if err != nil {
			return fmt.Errorf("watch %T: %w", w.of, err)
		}
		context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(registration) })
		synced = append(synced, registration.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return context.Cause(ctx)
	}
	return nil
}

type watch struct {
	of      client.Object
	handler toolscache.ResourceEventHandler
}

// hears passes on each object that comes, changes or goes.
func hears[O client.Object](f func(o O, gone bool)) toolscache.ResourceEventHandler {
	tell := func(o any, gone bool) {
		if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = unknown.Obj
		}
		if o, ok := o.(O); ok {
			f(o, gone)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { tell(o, false) },
		UpdateFunc: func(_, o any) { tell(o, false) },
		DeleteFunc: func(o any) { tell(o, true) },
	}
}
