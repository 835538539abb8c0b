package capacityrequest

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// expected is how long what was done is taken for granted while the cache does not show it.
const expected = time.Minute

// expectations are what was done for Pods a moment ago. A cache may be behind, and Pods change often: without
// them one would be asked for what is there already, again and again. The zero value is empty and safe for
// concurrent use.
type expectations struct {
	mu    sync.Mutex
	done  map[types.UID]expectation
	swept time.Time
}

type expectation struct {
	made, deleted time.Time // zero: it was not
}

// of says what was done for a Pod a moment ago.
func (e *expectations) of(uid types.UID, now time.Time) (made, deleted bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.done[uid]
	return recent(x.made, now), recent(x.deleted, now)
}

func (e *expectations) made(uid types.UID, now time.Time) { e.note(uid, expectation{made: now}, now) }

func (e *expectations) deleted(uid types.UID, now time.Time) {
	e.note(uid, expectation{deleted: now}, now)
}

func (e *expectations) note(uid types.UID, x expectation, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done == nil {
		e.done = map[types.UID]expectation{}
	}
	e.done[uid] = x
	if now.Sub(e.swept) < expected {
		return
	}
	e.swept = now
	for other, x := range e.done { // Pods that went without a last look
		if !recent(x.made, now) && !recent(x.deleted, now) {
			delete(e.done, other)
		}
	}
}

// seen says that the cache shows what was made.
func (e *expectations) seen(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.done, uid)
}

func recent(at, now time.Time) bool { return !at.IsZero() && now.Sub(at) < expected }
