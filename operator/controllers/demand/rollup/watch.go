package rollup

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/tally"
	"nstance.dev/operator/informers"
)

// requestPatience is how long CapacityRequests are waited for once all else was heard of, if Pods
// count without them.
const requestPatience = 2 * time.Second

// Watch has the controller hear of all objects of a cache, and returns once it has heard of those
// that exist; of requests that were made for Pods it need not have heard, unless Pods count by
// nothing else. It hears of objects until ctx ends.
func (c *Controller) Watch(ctx context.Context, objects informers.Source) error {
	watches := []watch{
		hears(&corev1.Pod{}, c.Pod),
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
	requests, err := hears(&demandv1.CapacityRequest{}, c.Request)(ctx, objects)
	if err != nil {
		return err
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
	return c.awaitRequests(ctx, requests)
}

// awaitRequests waits until all requests were heard of, or enough of them: a hundred thousand take longer
// than all else, and most were made for Pods, which count by themselves until then.
func (c *Controller) awaitRequests(ctx context.Context, synced toolscache.InformerSynced) error {
	if c.opts.Tally.Source != tally.Requests {
		patience, stop := context.WithTimeout(ctx, requestPatience)
		heard := toolscache.WaitForCacheSync(patience.Done(), synced)
		stop()
		if heard {
			return nil
		}
		err := c.listUnowned(ctx, synced)
		if err == nil {
			return nil
		}
		c.opts.Log.WarnContext(ctx, "CapacityRequests that no Pod owns not listed; the first roll-up waits for all requests", "error", err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced) {
		return context.Cause(ctx)
	}
	return nil
}

// listUnowned has the controller hear of the requests that were made for no Pod.
func (c *Controller) listUnowned(ctx context.Context, synced toolscache.InformerSynced) error {
	unowned, err := labels.NewRequirement(demandv1.LabelOwnedByPod, selection.DoesNotExist, nil)
	if err != nil {
		return fmt.Errorf("select requests: %w", err)
	}
	var list demandv1.CapacityRequestList
	// Resource version 0 is what the API server has in memory: it looks through all of them, and reads none from storage.
	err = c.opts.Writer.List(ctx, &list, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*unowned)},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
	if err != nil {
		return fmt.Errorf("list requests: %w", err)
	}
	c.inbox.put(func(n *news) { n.unowned = &unownedRequests{list.Items, synced} })
	return nil
}

// watch begins to hear of a kind.
type watch func(context.Context, informers.Source) (toolscache.InformerSynced, error)

func hears[O client.Object](one O, f func(o O, gone bool)) watch {
	return func(ctx context.Context, from informers.Source) (toolscache.InformerSynced, error) {
		return informers.Hear(ctx, from, one, f, cache.BlockUntilSynced(false))
	}
}
