package nodes

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// runPods does for the Pods of the machine what next says, until ctx ends.
func (a *Agent) runPods(ctx context.Context) error {
	pods := informers.NewFilteredPodInformer(a.client, metav1.NamespaceAll, 0, nil, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", a.machine.Name).String()
	})
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	look := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    look,
		UpdateFunc: func(_, object any) { look(object) },
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	var g errgroup.Group
	g.Go(func() error { pods.RunWithContext(ctx); return nil })
	g.Go(func() error { <-ctx.Done(); queue.ShutDown(); return nil })
	g.Go(func() error { a.work(ctx, pods.GetStore(), queue); return nil })
	return g.Wait()
}

// work takes one Pod after another until the queue is shut down.
func (a *Agent) work(ctx context.Context, pods cache.Store, queue workqueue.TypedRateLimitingInterface[string]) {
	for {
		key, shutdown := queue.Get()
		if shutdown {
			return
		}
		after, err := a.tend(ctx, pods, key)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				a.log.WarnContext(ctx, "pod", "pod", key, "error", err)
			}
			queue.AddRateLimited(key)
		case after > 0:
			queue.Forget(key)
			queue.AddAfter(key, after)
		default:
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

// tend takes the next step about a Pod, and returns when to look at it again. That a
// Pod has changed or gone in the meantime the next event will tell.
func (a *Agent) tend(ctx context.Context, pods cache.Store, key string) (time.Duration, error) {
	object, exists, err := pods.GetByKey(key)
	if err != nil || !exists {
		return 0, err
	}
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != a.machine.Name {
		return 0, nil
	}
	do := next(pod, a.machine.address(), time.Now())
	client := a.client.CoreV1().Pods(pod.Namespace)
	switch {
	case do.remove:
		err = client.Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), // at once
			Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
		})
	case do.status != nil:
		pod = pod.DeepCopy()
		pod.Status = *do.status
		_, err = client.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil
	}
	return do.after, err
}
