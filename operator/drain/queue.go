package drain

import (
	"sync"
	"time"
)

// queueAge is how old the list of a queue may get: drains that wait for their turn look at it
// once in that time, all of them, and each look is at all instances of all shards.
const queueAge = time.Second

// queue holds the drains that the shards ask for, by their instances. The zero value is ready;
// it is safe for concurrent use.
type queue struct {
	mu    sync.Mutex
	at    time.Time
	asked []Waiting
}

// get returns the drains that are asked for as look found them, queueAge ago at most. Nobody
// changes what is returned.
func (q *queue) get(now time.Time, look func() []Waiting) []Waiting {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.at.IsZero() || now.Sub(q.at) >= queueAge {
		q.at, q.asked = now, look()
	}
	return q.asked
}
