package drain

import (
	"sync"
	"time"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// entry is what this process remembers of a drain besides what stands on the Node.
type entry struct {
	request       Request
	state         State
	noticedAt     time.Time
	retainedSince time.Time
	results       []Result
	acked         bool // the answer to the last Acknowledge
	// blockedSince is since when budgets have held Pods of the Node; zero: they do not.
	blockedSince time.Time
	// doubt is what was last told of a Node that is not recognised for sure.
	doubt string
}

// noteBlockedSince notes since when budgets have held Pods, after a step.
func (e *entry) noteBlockedSince(d Decision, now time.Time) {
	switch {
	case d.Counts.Blocked == 0 || d.Over || d.State.Phase == infrav1.DrainDone:
		e.blockedSince = time.Time{}
	case e.blockedSince.IsZero():
		e.blockedSince = now
	}
}

// turn is where a drain stands among others: it waits for its turn, takes up one of the
// places, or neither.
func (e entry) turn() Phase {
	switch e.state.Phase {
	case infrav1.DrainCordoned:
		return infrav1.DrainCordoned
	case infrav1.DrainEvicting, infrav1.DrainForcing, infrav1.DrainDetaching:
		return infrav1.DrainEvicting
	}
	return None
}

// memory holds the drains of this process by instance. Its zero value is ready; it is safe
// for concurrent use, and whoever has an entry has it alone, as the queue of a controller
// gives each key to one worker at a time.
type memory struct {
	mu     sync.Mutex
	drains map[string]entry
}

func (m *memory) get(instance string) (entry, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.drains[instance]
	return e, ok
}

// put remembers a drain, and reports whether the turn of others may have changed by it.
func (m *memory) put(instance string, e entry) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.drains == nil {
		m.drains = map[string]entry{}
	}
	before := m.drains[instance]
	m.drains[instance] = e
	return before.turn() != e.turn() || Compare(before.request, e.request) != 0
}

// forget drops a drain, and reports whether the turn of others may have changed by it.
func (m *memory) forget(instance string) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.drains[instance]
	delete(m.drains, instance)
	return before.turn() != entry{}.turn()
}

// blocked returns for how long budgets have held the Pods of the Node that has waited
// longest; zero: of none.
func (m *memory) blocked(now time.Time) (longest time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.drains {
		if !e.blockedSince.IsZero() {
			longest = max(longest, now.Sub(e.blockedSince))
		}
	}
	return longest
}

// queueEntries returns all drains in any order, and whose they are.
func (m *memory) queueEntries() (all []QueueEntry, known map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known = map[string]bool{}
	for instance, e := range m.drains {
		known[instance] = true
		all = append(all, QueueEntry{e.request, e.state.Phase, e.state.StartedAt})
	}
	return all, known
}
