package capacityrequest

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"nstance.dev/operator/demand/translate"
)

// Settling is within what time after the first list of Pods each is looked at that has its request already.
const Settling = 30 * time.Second

// arrivals has each Pod looked at that comes, changes or goes. One that was there before the start and has its
// request is looked at some time in the second half of [Settling]: most of them ask for what they asked for before,
// there may be a hundred thousand, and the first roll-up waits for the same processor. What has changed of a
// Pod, its volumes or its penalties in between is seen so late; that it has ended, or has no request, is seen at once.
type arrivals struct {
	handler.TypedEnqueueRequestForObject[*corev1.Pod]

	requested func(context.Context, *corev1.Pod) bool
}

// Create implements handler.TypedEventHandler.
func (a *arrivals) Create(ctx context.Context, e event.TypedCreateEvent[*corev1.Pod], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if !e.IsInInitialList || translate.Terminal(e.Object) || !a.requested(ctx, e.Object) {
		a.TypedEnqueueRequestForObject.Create(ctx, e, q)
		return
	}
	q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}, wait.Jitter(Settling/2, 1))
}

// requested reports whether a Pod has a request, as far as the cache knows.
func (r *Reconciler) requested(ctx context.Context, pod *corev1.Pod) bool {
	request, err := r.requestOf(ctx, pod)
	return err == nil && request != nil
}
