package instances

import (
	"sync"
	"time"

	"nstance.dev/protos/identity"
)

// endedFor is how long an ended id is remembered: longer than any create that
// was sent before the end can be on its way.
const endedFor = time.Hour

// ended remembers the ids of machines whose end was asked for. The cloud itself
// answers a create that it has seen before; what it has never seen it would make,
// and a create that this process sent before the delete may arrive after it.
type ended struct {
	mu sync.Mutex
	at map[identity.ID]time.Time
}

func (e *ended) add(id identity.ID, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at == nil {
		e.at = map[identity.ID]time.Time{}
	}
	for old, at := range e.at {
		if now.Sub(at) > endedFor {
			delete(e.at, old)
		}
	}
	e.at[id] = now
}

func (e *ended) has(id identity.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.at[id]
	return ok
}
