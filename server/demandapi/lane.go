package demandapi

import (
	"sync"

	"nstance.dev/protos/rollup"
)

// lane holds the newest roll-up of a session that is not checked yet. One that comes meanwhile takes its
// place; one that says no more than that it equals the one that waits changes the number of that.
type lane struct {
	news chan struct{} // holds one token while there is one

	mu   sync.Mutex
	next *pending
}

// pending is a roll-up to be checked. whole is the number under which what it says came: its own, or that of the
// one that it took the place of.
type pending struct {
	*rollup.Rollup
	whole uint64
}

func newLane() *lane { return &lane{news: make(chan struct{}, 1)} }

func (l *lane) put(r *rollup.Rollup) {
	l.mu.Lock()
	next := &pending{r, r.Sequence}
	if waits := l.next; waits != nil && r.SameAs != 0 {
		same := *waits.Rollup
		same.Sequence, same.GeneratedUnixMs = r.Sequence, r.GeneratedUnixMs
		next = &pending{&same, waits.whole}
	}
	l.next = next
	l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
}

func (l *lane) take() *pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.next
	l.next = nil
	return r
}
