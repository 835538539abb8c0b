package events

import (
	"sync"

	"nstance.dev/server/refusal"
)

// watchQueue is how many events may wait for one watcher.
const watchQueue = 256

var errWatcherSlow = &refusal.Error{Code: refusal.ResourceExhausted, Reason: "WATCHER_TOO_SLOW",
	Message: "the watcher does not read fast enough; connect again for a new snapshot"}

// hub hands events to subscribers. The zero hub has none.
type hub[T any] struct {
	mu     sync.Mutex
	subs   map[*subscription[T]]struct{}
	closed bool
}

type subscription[T any] struct {
	tenant string
	queue  chan T
	why    error // set before queue is closed
}

func (h *hub[T]) subscribe(tenant string) *subscription[T] {
	sub := &subscription[T]{tenant: tenant, queue: make(chan T, watchQueue)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		sub.why = refusal.ErrTermOver
		close(sub.queue)
		return sub
	}
	if h.subs == nil {
		h.subs = map[*subscription[T]]struct{}{}
	}
	h.subs[sub] = struct{}{}
	return sub
}

func (h *hub[T]) unsubscribe(sub *subscription[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, sub)
}

// publish gives an event to the tenant's subscribers, without waiting.
func (h *hub[T]) publish(tenant string, ev T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.subs {
		if sub.tenant != tenant {
			continue
		}
		select {
		case sub.queue <- ev:
		default:
			h.drop(sub, errWatcherSlow)
		}
	}
}

func (h *hub[T]) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for sub := range h.subs {
		h.drop(sub, refusal.ErrTermOver)
	}
}

func (h *hub[T]) drop(sub *subscription[T], why error) {
	sub.why = why
	close(sub.queue)
	delete(h.subs, sub)
}
