package rollup

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/tally"
	"nstance.dev/operator/informers"
)

// Watch has the controller hear of all objects of a cache, and returns once it has heard of those
// that exist. It hears of them until ctx ends.
func (c *Controller) Watch(ctx context.Context, objects informers.Source) error {
	watches := []watch{
		hears(&corev1.Pod{}, c.Pod),
		hears(&demandv1.CapacityRequest{}, c.Request),
		hears(&corev1.Node{}, c.Node),
		hears(&demandv1.UpcomingNode{}, c.UpcomingNode),
	}
	if c.opts.Overheads {
		watches = append(watches, hears(&appsv1.DaemonSet{}, func(*appsv1.DaemonSet, bool) { c.DaemonSets() }))
	}
	if c.opts.Tally.Source != tally.Requests && c.opts.Translation().VolumeTopology {
		watches = append(watches,
			hears(&corev1.PersistentVolumeClaim{}, func(claim *corev1.PersistentVolumeClaim, _ bool) { c.Claim(client.ObjectKeyFromObject(claim)) }),
			hears(&corev1.PersistentVolume{}, func(v *corev1.PersistentVolume, _ bool) { c.Volume(v) }),
			hears(&storagev1.StorageClass{}, func(*storagev1.StorageClass, bool) { c.StorageClasses() }))
	}
	var synced []toolscache.InformerSynced
	for _, begin := range watches {
		all, err := begin(ctx, objects)
		if err != nil {
			return err
		}
		synced = append(synced, all)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return context.Cause(ctx)
	}
	return nil
}

// watch begins to hear of a kind.
type watch func(context.Context, informers.Source) (toolscache.InformerSynced, error)

func hears[O client.Object](one O, f func(o O, gone bool)) watch {
	return func(ctx context.Context, from informers.Source) (toolscache.InformerSynced, error) {
		return informers.Hear(ctx, from, one, f)
	}
}
