package drain

import (
	"sync"
	"time"

	api "nstance.dev/operator/api/infrastructure/v1beta1"
)

// entry is what this process remembers of a drain besides what stands on the Node.
type entry struct {
	request     Request
	state       State
	noticedAt   time.Time
	sparedSince time.Time
	results     []Result
	acked       bool // the answer to the last Acknowledge
	// blockedSince is since when budgets have held Pods of the Node; zero: they do not.
	blockedSince time.Time
	// doubt is what was last told of a Node that is not recognised for sure.
	doubt string
}

// wait notes whether budgets hold Pods after a step.
func (e *entry) wait(d Decision, now time.Time) {
	switch {
	case d.Counts.Blocked == 0 || d.Over || d.State.Phase == api.DrainDone:
		e.blockedSince = time.Time{}
	case e.blockedSince.IsZero():
		e.blockedSince = now
	}
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

func (m *memory) put(instance string, e entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.drains == nil {
		m.drains = map[string]entry{}
	}
	m.drains[instance] = e
}

func (m *memory) forget(instance string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.drains, instance)
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

// waiting returns all drains in any order, and whose they are.
func (m *memory) waiting() (all []Waiting, known map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known = map[string]bool{}
	for instance, e := range m.drains {
		known[instance] = true
		all = append(all, Waiting{e.request, e.state.Phase, e.state.StartedAt})
	}
	return all, known
}
