package rollup

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/tally"
	"nstance.dev/operator/informers"
)

const (
	// requestPatience is how long CapacityRequests are waited for once all else was heard of, if Pods
	// count without them, and listTime how long the list of those that no Pod owns may take.
	requestPatience = 2 * time.Second
	listTime        = 10 * time.Second
	// lateAfter is when it is said that not all requests were heard of.
	lateAfter = time.Minute
)

// Watch has the controller hear of all objects of a cache, and returns once it has heard of those
// that exist. Of requests that Pods own it need not have heard, unless Pods count by nothing else. It hears
// of objects until ctx ends.
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
	var synced []toolscache.InformerSynced
	for _, begin := range watches {
		all, err := begin(ctx, objects)
		if err != nil {
			return err
		}
		synced = append(synced, all)
	}
	requests, err := hears(&demandv1.CapacityRequest{}, c.Request)(ctx, objects)
	if err != nil {
		return err
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return context.Cause(ctx)
	}
	unowned, err := awaitRequests(ctx, c.opts, requests)
	if unowned == nil || err != nil {
		return err
	}
	c.inbox.put(func(n *news) { n.unowned = unowned })
	go func() { // nothing else tells when the last one was heard of
		if !heardWithin(ctx, lateAfter, requests) && ctx.Err() == nil {
			c.opts.Log.WarnContext(ctx, "requests not read yet: those that no Pod owns count as they were at the start", "after", lateAfter)
		}
		if toolscache.WaitForCacheSync(ctx.Done(), requests) {
			c.inbox.put(func(*news) {})
		}
	}()
	return nil
}

// awaitRequests waits until all requests were heard of. They may be a hundred thousand, which take longer than all else,
// and most were made for Pods. So where these count by themselves it waits for a moment, and returns the requests that
// no Pod owns; nil: all were heard of.
func awaitRequests(ctx context.Context, o Options, synced toolscache.InformerSynced) (*unownedRequests, error) {
	if o.Tally.Source != tally.Requests {
		if heardWithin(ctx, requestPatience, synced) {
			return nil, nil
		}
		unowned, err := listUnowned(ctx, o.Writer)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil:
			return &unownedRequests{unowned, synced}, nil
		}
		o.Log.WarnContext(ctx, "list of requests that no Pod owns failed; the first roll-up waits for all requests", "error", err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced) {
		return nil, context.Cause(ctx)
	}
	return nil, nil
}

func heardWithin(ctx context.Context, d time.Duration, synced toolscache.InformerSynced) bool {
	ctx, stop := context.WithTimeout(ctx, d)
	defer stop()
	return toolscache.WaitForCacheSync(ctx.Done(), synced)
}

// listUnowned returns the requests that no Pod owns: without the label, or with an empty one.
func listUnowned(ctx context.Context, from client.Reader) ([]demandv1.CapacityRequest, error) {
	ctx, stop := context.WithTimeout(ctx, listTime)
	defer stop()
	var all []demandv1.CapacityRequest
	for operator, values := range map[selection.Operator][]string{selection.DoesNotExist: nil, selection.Equals: {""}} {
		unowned, err := labels.NewRequirement(demandv1.LabelOwnedByPod, operator, values)
		if err != nil {
			return nil, fmt.Errorf("select requests: %w", err)
		}
		var list demandv1.CapacityRequestList
		if err := from.List(ctx, &list, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*unowned)}); err != nil {
			return nil, fmt.Errorf("list requests: %w", err)
		}
		all = append(all, list.Items...)
	}
	return all, nil
}

// watch begins to hear of a kind.
type watch func(context.Context, informers.Source) (toolscache.InformerSynced, error)

func hears[O client.Object](one O, f func(o O, gone bool)) watch {
	return func(ctx context.Context, from informers.Source) (toolscache.InformerSynced, error) {
		return informers.Hear(ctx, from, one, f, cache.BlockUntilSynced(false))
	}
}
