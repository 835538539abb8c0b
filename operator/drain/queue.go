package drain

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
)

// queueAge is how old the list of a queue may get without news of the shards: to make it is a
// look at all instances of all shards.
const queueAge = time.Second

// queue holds the drains that the shards ask for, by their instances, and wakes those that
// wait for their turn. The zero value is ready and wakes none; it is safe for concurrent use.
type queue struct {
	mu        sync.Mutex
	at        time.Time
	requested []QueueEntry
	add       func(reconcile.Request) // nil: the controller has not started
}

// get returns the drains that are asked for as look found them, queueAge ago at most, and
// whether others were asked for before. Nobody changes what is returned.
func (q *queue) get(now time.Time, look func() []QueueEntry) (requested []QueueEntry, changed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.at.IsZero() || now.Sub(q.at) >= queueAge {
		before := q.requested
		q.at, q.requested = now, look()
		changed = !slices.EqualFunc(before, q.requested, func(a, b QueueEntry) bool { return Compare(a.Request, b.Request) == 0 })
	}
	return q.requested, changed
}

// expire makes get look again: the shards have news.
func (q *queue) expire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.at = time.Time{}
}

// Wake has the drains of these instances worked on: what a [Source] requests of them may have
// changed. Before the controller has started it does nothing.
func (r *Reconciler) Wake(instances ...string) { r.queue.wake(instances) }

func (q *queue) wake(instances []string) {
	q.mu.Lock()
	add := q.add
	q.mu.Unlock()
	if add == nil {
		return
	}
	for _, instance := range instances {
		for _, request := range inventory.Request(instance) {
			add(request)
		}
	}
}

// source returns the source of the requests of those whose turn has come.
func (q *queue) source() source.Source {
	return source.Func(func(_ context.Context, work workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.add = func(request reconcile.Request) { work.Add(request) }
		return nil
	})
}

// turn reports whether a drain may go on beside the others: those that this process works
// on, and those that it has not come to yet. One that may not is woken when its turn comes.
func (r *Reconciler) turn(s *target) bool {
	if s.entry.state.Phase != infrav1.DrainCordoned {
		return true
	}
	instance := s.evaluation.Request.Instance
	all, changed := r.queueEntries()
	if changed {
		r.wakeNext(all, instance)
	}
	return Turn(instance, all, r.Concurrency, r.Now())
}

// waitsFor is how long a drain whose turn it is not waits for it at most: until its time is
// nearly over, or it may have to be undone. Zero: until it is woken.
func (r *Reconciler) waitsFor(s *target) time.Duration {
	var most time.Duration
	if deadline := s.evaluation.Request.Deadline; !deadline.IsZero() {
		most = ForcePoint(s.entry.state.StartedAt, deadline).Sub(r.Now())
	}
	if s.evaluation.Retained && (most == 0 || most > retainedFor) {
		most = retainedFor
	}
	return most
}

// remember keeps what was done of a drain, and wakes those whose turn has come by it.
func (r *Reconciler) remember(instance string, e entry) {
	if r.memory.put(instance, e) {
		all, _ := r.queueEntries()
		r.wakeNext(all, instance)
	}
}

// forget drops a drain that is over, and wakes those whose turn has come by it.
func (r *Reconciler) forget(instance string) {
	if r.memory.forget(instance) {
		all, _ := r.queueEntries()
		r.wakeNext(all, instance)
	}
}

// requestsChanged looks again at what the shards ask for, which they have news of, and wakes
// those whose turn has come by it.
func (r *Reconciler) requestsChanged() {
	r.queue.expire()
	drains, _ := r.memory.queueEntries()
	if !slices.ContainsFunc(drains, func(w QueueEntry) bool { return w.Phase == infrav1.DrainCordoned }) {
		return // nobody waits
	}
	if all, changed := r.queueEntries(); changed {
		r.wakeNext(all, "")
	}
}

// wakeNext wakes those of this process's drains whose turn it is, save one.
func (r *Reconciler) wakeNext(all []QueueEntry, but string) {
	next := Next(all, r.Concurrency, r.Now())
	r.queue.wake(slices.DeleteFunc(next, func(instance string) bool {
		_, known := r.memory.get(instance)
		return !known || instance == but
	}))
}

// queueEntries returns all drains, and whether the shards ask for others than when it was last
// called.
func (r *Reconciler) queueEntries() (all []QueueEntry, changed bool) {
	all, known := r.memory.queueEntries()
	requested, changed := r.queue.get(r.Now(), r.requested)
	for _, w := range requested {
		if !known[w.Request.Instance] {
			all = append(all, w)
		}
	}
	return all, changed
}

// requested returns the drains that the shards ask for.
func (r *Reconciler) requested() (all []QueueEntry) {
	for _, shard := range r.Inventory.Names() {
		r.Inventory.Read(shard, func(said *inventory.Shard) {
			for _, in := range said.Instances("") {
				if in.GetStatus() == inventory.StatusDraining {
					other := Evaluate(r.Sources, Target{Presence: inventory.Present, Reported: in}, r.Now())
					all = append(all, QueueEntry{other.Request, infrav1.DrainCordoned, r.Now()})
				}
			}
		})
	}
	return all
}
