package collect_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"nstance.dev/operator/collect"
)

// TestEventsOfOneObjectAreOneRequest shows that what comes within the delay is looked at once, and that
// the first event says when.
func TestEventsOfOneObjectAreOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		h := collect.Events[client.Object](collect.Later, &handler.EnqueueRequestForObject{})
		pod := &corev1.Pod{}
		pod.Name = "p"
		began := time.Now()
		for range 9 {
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: pod, ObjectNew: pod}, queue)
			time.Sleep(collect.Later / 10)
		}
		h.Delete(t.Context(), event.DeleteEvent{Object: pod}, queue)
		h.Generic(t.Context(), event.GenericEvent{Object: pod}, queue)
		if n := queue.Len(); n != 0 {
			t.Fatalf("%d requests after %s, none is due before %s", n, time.Since(began), collect.Later)
		}
		request, _ := queue.Get()
		if took := time.Since(began); took != collect.Later || request.Name != "p" {
			t.Errorf("%s is asked for after %s, want p after %s", request, took, collect.Later)
		}
		queue.Done(request)
		time.Sleep(time.Minute)
		if n := queue.Len(); n != 0 {
			t.Errorf("%d more requests for the same events", n)
		}
	})
}

// TestWhatWasThereIsLookedAtAtOnce shows that a controller that begins does not wait for what exists.
func TestWhatWasThereIsLookedAtAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		h := collect.Events[client.Object](collect.Soon, &handler.EnqueueRequestForObject{})
		h.Create(t.Context(), event.CreateEvent{Object: &corev1.Pod{}, IsInInitialList: true}, queue)
		if n := queue.Len(); n != 1 {
			t.Errorf("%d requests for what was there, want 1 at once", n)
		}
		later := &corev1.Pod{}
		later.Name = "new"
		h.Create(t.Context(), event.CreateEvent{Object: later}, queue)
		if n := queue.Len(); n != 1 {
			t.Errorf("%d requests, a new object is collected", n)
		}
		h = collect.AllButCreates[client.Object](collect.Soon, &handler.EnqueueRequestForObject{})
		h.Create(t.Context(), event.CreateEvent{Object: later}, queue)
		if n := queue.Len(); n != 2 {
			t.Errorf("%d requests, want 2: a new object is looked at at once", n)
		}
	})
}

func TestCreatesAlone(t *testing.T) {
	p := collect.CreatesAlone()
	if !p.Create(event.CreateEvent{}) || p.Update(event.UpdateEvent{}) || p.Delete(event.DeleteEvent{}) || p.Generic(event.GenericEvent{}) {
		t.Error("not creates alone pass")
	}
}
