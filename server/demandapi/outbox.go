package demandapi

import (
	"sync"

	"nstance.dev/server/demandloop"
)

// Bounds of an outbox.
const (
	mostOrders  = 1024    // requests and instructions that wait; the oldest is dropped, since the loop asks again
	mostWaiting = 200_000 // messages in all; with more of them the session ends
)

// outbox is what waits to be sent to an operator. Its zero value is not of use; see newOutbox. It is safe for
// concurrent use.
type outbox struct {
	news    chan struct{} // holds one token while something waits
	dropped func(kind string)

	mu     sync.Mutex
	queue  []waiting
	first  uint64            // position of queue[0]
	at     map[string]uint64 // position of the message with a key that waits
	orders int               // requests and instructions that wait
	full   bool
}

// waiting is a message in its place; nil: it was dropped.
type waiting struct {
	message demandloop.Message
	order   bool
}

func newOutbox(dropped func(kind string)) *outbox {
	return &outbox{news: make(chan struct{}, 1), dropped: dropped, at: map[string]uint64{}}
}

// put queues a message, and reports whether there was room. It does not block.
func (o *outbox) put(m demandloop.Message) bool {
	o.mu.Lock()
	kind, ok := o.add(m)
	o.mu.Unlock()
	if kind != "" {
		o.dropped(kind)
	}
	select {
	case o.news <- struct{}{}:
	default:
	}
	return ok
}

// add queues a message under the lock, and returns the kind of the one that was dropped for it.
func (o *outbox) add(m demandloop.Message) (dropped string, ok bool) {
	key := m.Key()
	if at, waits := o.at[key]; waits && key != "" {
		o.queue[at-o.first].message = m
		return "", !o.full
	}
	if o.full || len(o.queue) >= mostWaiting {
		o.full = true
		return "", false
	}
	kind := kindOf(m)
	order := kind != ""
	if order && o.orders >= mostOrders {
		dropped = o.dropOldest()
	}
	if order {
		o.orders++
	}
	if key != "" {
		o.at[key] = o.first + uint64(len(o.queue))
	}
	o.queue = append(o.queue, waiting{m, order})
	return dropped, true
}

// dropOldest drops the oldest request or instruction, and returns its kind.
func (o *outbox) dropOldest() string {
	for i := range o.queue {
		if w := &o.queue[i]; w.order {
			kind := kindOf(w.message)
			delete(o.at, w.message.Key())
			*w = waiting{}
			o.orders--
			return kind
		}
	}
	return ""
}

// take returns the next message, and reports whether there is one.
func (o *outbox) take() (demandloop.Message, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) > 0 {
		w := o.queue[0]
		o.queue[0] = waiting{}
		o.queue, o.first = o.queue[1:], o.first+1
		if w.message == nil {
			continue
		}
		if w.order {
			o.orders--
		}
		delete(o.at, w.message.Key())
		return w.message, true
	}
	o.queue = nil
	return nil, false
}

// kindOf is the kind of a message that the loop sends again if it is dropped; empty for others.
func kindOf(m demandloop.Message) string {
	switch m.(type) {
	case demandloop.BootstrapRequest:
		return "bootstrap"
	case demandloop.ReclaimInstruction:
		return "reclaim"
	}
	return ""
}
