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
	unowned, err := awaitRequests(ctx, c.opts, requests)
	if unowned != nil {
		c.inbox.put(func(n *news) { n.unowned = unowned })
	}
	return err
}

// awaitRequests waits until all requests were heard of. They may be a hundred thousand, which take longer than all else,
// and most were made for Pods. So where these count by themselves it waits for a moment, and returns the requests that
// were made for no Pod.
func awaitRequests(ctx context.Context, o Options, synced toolscache.InformerSynced) (*unownedRequests, error) {
	if o.Tally.Source != tally.Requests {
		patience, stop := context.WithTimeout(ctx, requestPatience)
		heard := toolscache.WaitForCacheSync(patience.Done(), synced)
		stop()
		if heard {
			return nil, nil
		}
		unowned, err := listUnowned(ctx, o.Writer)
		if err == nil {
			return &unownedRequests{unowned, synced}, nil
		}
		o.Log.WarnContext(ctx, "list of requests that no Pod owns failed; the first roll-up waits for all requests", "error", err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced) {
		return nil, context.Cause(ctx)
	}
	return nil, nil
}

// listUnowned returns the requests that were made for no Pod.
func listUnowned(ctx context.Context, from client.Reader) ([]demandv1.CapacityRequest, error) {
	unowned, err := labels.NewRequirement(demandv1.LabelOwnedByPod, selection.DoesNotExist, nil)
	if err != nil {
		return nil, fmt.Errorf("select requests: %w", err)
	}
	var list demandv1.CapacityRequestList
	// Resource version 0 is what the API server has in memory: it looks through all of them, and reads none from storage.
	err = from.List(ctx, &list, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*unowned)},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
	if err != nil {
		return nil, fmt.Errorf("list requests: %w", err)
	}
	return list.Items, nil
}

// watch begins to hear of a kind.
type watch func(context.Context, informers.Source) (toolscache.InformerSynced, error)

func hears[O client.Object](one O, f func(o O, gone bool)) watch {
	return func(ctx context.Context, from informers.Source) (toolscache.InformerSynced, error) {
		return informers.Hear(ctx, from, one, f, cache.BlockUntilSynced(false))
	}
}
