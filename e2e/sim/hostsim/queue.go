package hostsim

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queue is that of one controller. Whoever wants a request gets it when the world gives it.
type queue struct {
	name string

	mu       sync.Mutex
	due      map[reconcile.Request]time.Time
	working  map[reconcile.Request]bool
	failures map[reconcile.Request]int
	idle     int // workers that wait
	given    chan reconcile.Request
	shut     bool
}

func newQueue(name string) *queue {
	return &queue{
		name: name, due: map[reconcile.Request]time.Time{}, working: map[reconcile.Request]bool{}, failures: map[reconcile.Request]int{},
		given: make(chan reconcile.Request),
	}
}

// ready are the requests that may be given now, in order.
func (q *queue) ready(now time.Time) []reconcile.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle == 0 {
		return nil
	}
	var all []reconcile.Request
	for r, at := range q.due {
		if !at.After(now) && !q.working[r] {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b reconcile.Request) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// next is when the first request is due; false: none is waited for.
func (q *queue) next() (first time.Time, some bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, at := range q.due {
		if !some || at.Before(first) {
			first, some = at, true
		}
	}
	return first, some || len(q.working) > 0
}

// works is whether a worker has the request.
func (q *queue) works(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for r := range q.working {
		if r.Name == name {
			return true
		}
	}
	return false
}

// give gives a request to a worker.
func (q *queue) give(r reconcile.Request) {
	q.mu.Lock()
	delete(q.due, r)
	q.working[r] = true
	q.idle--
	q.mu.Unlock()
	q.given <- r
}

// Get implements workqueue.TypedInterface.
func (q *queue) Get() (r reconcile.Request, shutdown bool) {
	q.mu.Lock()
	if q.shut {
		q.mu.Unlock()
		return r, true
	}
	q.idle++
	q.mu.Unlock()
	r, ok := <-q.given
	return r, !ok
}

// Done implements workqueue.TypedInterface.
func (q *queue) Done(r reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.working, r)
}

// Add implements workqueue.TypedInterface.
func (q *queue) Add(r reconcile.Request) { q.AddAfter(r, 0) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *queue) AddAfter(r reconcile.Request, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := time.Now().Add(d)
	if is, waits := q.due[r]; !waits || at.Before(is) {
		q.due[r] = at
	}
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface: pauses grow up to half a minute.
func (q *queue) AddRateLimited(r reconcile.Request) {
	q.mu.Lock()
	q.failures[r]++
	d := min(10*time.Millisecond<<min(q.failures[r], 12), 30*time.Second)
	q.mu.Unlock()
	q.AddAfter(r, d)
}

// Forget implements workqueue.TypedRateLimitingInterface.
func (q *queue) Forget(r reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.failures, r)
}

// NumRequeues implements workqueue.TypedRateLimitingInterface.
func (q *queue) NumRequeues(r reconcile.Request) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failures[r]
}

// Len implements workqueue.TypedInterface.
func (q *queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.due)
}

// ShutDown implements workqueue.TypedInterface.
func (q *queue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.shut {
		q.shut = true
		close(q.given)
	}
}

// ShutDownWithDrain implements workqueue.TypedInterface.
func (q *queue) ShutDownWithDrain() { q.ShutDown() }

// ShuttingDown implements workqueue.TypedInterface.
func (q *queue) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.shut
}
