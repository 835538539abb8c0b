package drain_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// worker works drains off one queue, as a controller does, and counts how often each was
// worked on.
type worker struct {
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]

	mu    sync.Mutex
	steps map[string]int
}

// startWorker starts a worker. The function that it returns ends it.
func startWorker(t *testing.T, w *world) (*worker, func()) {
	t.Helper()
	k := &worker{
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
		steps: map[string]int{},
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := w.drains.Turns().Start(ctx, k.queue); err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			request, shutdown := k.queue.Get()
			if shutdown {
				return
			}
			k.mu.Lock()
			k.steps[request.Name]++
			k.mu.Unlock()
			result, err := w.drains.Reconcile(ctx, request)
			switch {
			case err != nil:
				k.queue.AddRateLimited(request)
			case result.RequeueAfter > 0:
				k.queue.AddAfter(request, result.RequeueAfter)
			}
			k.queue.Done(request)
		}
	})
	return k, func() {
		cancel()
		k.queue.ShutDown()
		done.Wait()
	}
}

func (k *worker) add(id string) {
	k.queue.Add(ctrl.Request{NamespacedName: client.ObjectKey{Name: id}})
}

func (k *worker) worked(id string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.steps[id]
}

func (w *world) evicting() (nodes []string) {
	for i := range w.ids {
		if n := w.node(i); n.Annotations[infrav1.AnnotationDrainPhase] == string(infrav1.DrainEvicting) {
			nodes = append(nodes, n.Name)
		}
	}
	return nodes
}

// Of five drains three go on, and two wait. Nothing looks at those two until a place gets
// free, and then the more urgent one begins at once.
func TestO10_TheNextDrainBeginsWhenAPlaceGetsFree(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		w.blocked, w.still = true, true
		for i := range 5 {
			w.condemn(i, time.Duration(60+i)*time.Minute)
		}
		k, stop := startWorker(t, w)
		defer stop()
		for _, id := range w.ids {
			k.add(id)
		}
		w.After(2 * time.Second)
		if got := w.evicting(); !slices.Equal(got, []string{"node-0", "node-1", "node-2"}) {
			t.Fatalf("those go on: %v", got)
		}
		waiting := w.ids[3:]
		before := []int{k.worked(waiting[0]), k.worked(waiting[1])}
		w.After(10 * time.Minute)
		if after := []int{k.worked(waiting[0]), k.worked(waiting[1])}; !slices.Equal(before, after) {
			t.Errorf("those that wait are worked on meanwhile: %v, then %v times", before, after)
		}
		for _, pod := range []string{"node-1-one", "node-1-two"} { // somebody deletes them
			if err := w.client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: pod}}); err != nil {
				t.Fatal(err)
			}
		}
		k.add(w.ids[1]) // its node has news
		synctest.Wait()
		time.Sleep(5 * time.Millisecond) // steps that follow another without a pause
		synctest.Wait()
		if got := w.evicting(); !slices.Equal(got, []string{"node-0", "node-2", "node-3"}) {
			t.Errorf("when a place is free, those go on: %v", got)
		}
		if k.worked(waiting[1]) != before[1] {
			t.Errorf("the one that goes on waiting is worked on: %d times, then %d", before[1], k.worked(waiting[1]))
		}
	})
}

// A drain that waits is not woken when its time is nearly over: it comes back by itself.
func TestO10_ADrainThatWaitsGoesOnAtItsForcePoint(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.blocked, w.still = true, true
		for i := range 3 { // they keep the places
			w.condemn(i, 2*time.Hour)
		}
		k, stop := startWorker(t, w)
		defer stop()
		for _, id := range w.ids[:3] {
			k.add(id)
		}
		w.After(10 * time.Second)
		w.condemn(3, 10*time.Minute)
		k.add(w.ids[3])
		w.After(10 * time.Second)
		before := k.worked(w.ids[3])
		w.After(7 * time.Minute)
		if n := k.worked(w.ids[3]); n != before {
			t.Errorf("worked on %d times while it waits", n-before)
		}
		w.After(time.Minute)
		if phase := w.node(3).Annotations[infrav1.AnnotationDrainPhase]; phase == string(infrav1.DrainCordoned) {
			t.Errorf("%s although its time is nearly over", phase)
		}
	})
}

// A drain that nobody has worked on yet takes its place in the queue. When it is withdrawn,
// those that waited behind it go on.
func TestO10_ADrainThatIsWithdrawnMakesRoom(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.blocked, w.still = true, true
		w.condemn(3, time.Hour)
		for i := range 3 { // more urgent, and not worked on yet
			w.condemn(i, 30*time.Minute)
		}
		k, stop := startWorker(t, w)
		defer stop()
		k.add(w.ids[3])
		w.After(time.Minute)
		if got := w.evicting(); len(got) > 0 {
			t.Fatalf("those go on: %v", got)
		}
		w.Shard("a").Pardon(w.ids[1])
		w.After(time.Second)
		w.drains.Changed()
		w.After(time.Second)
		if got := w.evicting(); !slices.Equal(got, []string{"node-3"}) {
			t.Errorf("those go on: %v", got)
		}
	})
}
