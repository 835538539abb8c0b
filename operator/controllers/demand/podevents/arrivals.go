package podevents

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// arrivals has a Pod looked at that begins to wait, once there may be something to say of it. From then on each look
// says when the next one is, so that changes of a Pod that waits ask for none: there may be a hundred thousand of
// them, and each has several. Those that wait already when the operator starts are looked at one after another, in the
// second half of [Patience]: the first roll-up needs the processor before.
type arrivals struct{ now func() time.Time }

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Create implements handler.TypedEventHandler.
func (a arrivals) Create(_ context.Context, e event.TypedCreateEvent[*corev1.Pod], q queue) {
	if !waits(e.Object) {
		return
	}
	after := early(e.Object, time.Time{}, a.now())
	if after == 0 && e.IsInInitialList {
		after = wait.Jitter(Patience/2, 1)
	}
	a.add(e.Object, after, q)
}

// Update implements handler.TypedEventHandler.
func (a arrivals) Update(_ context.Context, e event.TypedUpdateEvent[*corev1.Pod], q queue) {
	if waits(e.ObjectNew) && !waits(e.ObjectOld) {
		a.add(e.ObjectNew, early(e.ObjectNew, time.Time{}, a.now()), q)
	}
}

// Delete implements handler.TypedEventHandler.
func (arrivals) Delete(context.Context, event.TypedDeleteEvent[*corev1.Pod], queue) {}

// Generic implements handler.TypedEventHandler.
func (arrivals) Generic(context.Context, event.TypedGenericEvent[*corev1.Pod], queue) {}

func (arrivals) add(p *corev1.Pod, after time.Duration, q queue) {
	q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)}, after)
}
