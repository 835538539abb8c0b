package inventory

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// ShardChange is something that is known now of a shard and was not before.
type ShardChange struct {
	Shard string
	Change
}

// Keys returns the objects that changes concern; it may name one several times. The
// changes are all different and in the order in which they came. It is called by one
// goroutine at a time and may wait, for a cache for example.
type Keys func(ctx context.Context, changes []ShardChange) []reconcile.Request

// Request returns the request for a key that is in no namespace, such as the id of an
// instance; none for an empty one.
func Request(key string) []reconcile.Request {
	if key == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: key}}}
}

// Hub passes changes on to controllers. It is safe for concurrent use; NewHub makes one.
type Hub struct {
	mu        sync.Mutex
	listeners map[*listener]struct{}
}

// NewHub returns a hub that nobody listens to.
func NewHub() *Hub { return &Hub{listeners: map[*listener]struct{}{}} }

// Changed notes changes of a shard. It does not wait for anybody.
func (h *Hub) Changed(shard string, changes ...Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		l.note(shard, changes)
	}
}

// Source returns a source of requests for one controller, which collects changes for delay.
func (h *Hub) Source(delay time.Duration, keys Keys) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		l := &listener{delay: delay, noted: map[ShardChange]struct{}{}, wake: make(chan struct{}, 1)}
		h.mu.Lock()
		h.listeners[l] = struct{}{}
		h.mu.Unlock()
		go func() {
			defer func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				delete(h.listeners, l)
			}()
			l.run(ctx, keys, queue)
		}()
		return nil
	})
}

// listener collects the changes for one controller.
type listener struct {
	delay time.Duration
	wake  chan struct{} // holds one token while there is something new

	mu      sync.Mutex
	changes []ShardChange
	noted   map[ShardChange]struct{} // those in changes
}

func (l *listener) note(shard string, changes []Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		change := ShardChange{shard, c}
		if _, known := l.noted[change]; !known {
			l.noted[change] = struct{}{}
			l.changes = append(l.changes, change)
		}
	}
	if len(l.changes) > 0 {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// take returns what was collected and begins again.
func (l *listener) take() []ShardChange {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.changes
	l.changes = nil
	clear(l.noted)
	return taken
}

func (l *listener) run(ctx context.Context, keys Keys, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		timer.Reset(l.delay)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		for _, request := range keys(ctx, l.take()) {
			queue.Add(request)
		}
	}
}
