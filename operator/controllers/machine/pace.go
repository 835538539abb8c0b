package machine

import (
	"slices"
	"sync"
	"time"

	"nstance.dev/operator/cooloff"
)

// Bounds of how many instances of one group on one shard go in a minute with Machines that
// were deleted, and not because the group gets smaller. All Machines may have been deleted
// by mistake (F37), and a shard obeys who names an instance; so the bound that it has for
// its own deletions is kept here too (S8).
const (
	paceFloor  = 10
	paceShare  = 4 // of what is there: one in so many
	paceWindow = time.Minute
)

// pace holds when instances were asked to end. A process that begins anew allows a minute's
// worth again. The zero value is ready; it is safe for concurrent use.
type pace struct {
	mu   sync.Mutex
	sent map[cooloff.Place][]time.Time
}

// wait is how long it is until one more of a group may be asked for; there is how many
// instances it has whose end is not decided.
func (p *pace) wait(at cooloff.Place, there int, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left(at, there, now)
}

// take counts one more, unless it has to wait.
func (p *pace) take(at cooloff.Place, there int, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left(at, there, now) > 0 {
		return false
	}
	if p.sent == nil {
		p.sent = map[cooloff.Place][]time.Time{}
	}
	p.sent[at] = append(p.sent[at], now)
	return true
}

// left is wait. It forgets what was longer ago than the window. The caller holds mu.
func (p *pace) left(at cooloff.Place, there int, now time.Time) time.Duration {
	sent := slices.DeleteFunc(p.sent[at], func(t time.Time) bool { return now.Sub(t) >= paceWindow })
	if len(sent) == 0 {
		delete(p.sent, at)
		return 0
	}
	p.sent[at] = sent
	bound := max(paceFloor, (there+paceShare-1)/paceShare)
	if len(sent) < bound {
		return 0
	}
	return sent[len(sent)-bound].Add(paceWindow).Sub(now)
}
