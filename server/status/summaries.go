package status

import (
	"slices"
	"sync"
	"time"

	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
)

// Summary is what was last said of a group.
type Summary struct {
	Shown      []explain.Decision
	Conditions []explain.Condition // of the group and its instances
	Paused     bool
}

// Summaries is what was last said of each group, so that only news is said again. The zero
// value knows nothing. It is safe for concurrent use.
type Summaries struct {
	mu      sync.Mutex
	byGroup map[fleet.GroupID]Summary
}

// Swap puts what stands now in the place of what stood before, which it returns.
func (s *Summaries) Swap(group fleet.GroupID, now Summary, at time.Time) Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.byGroup[group]
	now.Conditions = explain.Track(before.Conditions, now.Conditions, at)
	if s.byGroup == nil {
		s.byGroup = map[fleet.GroupID]Summary{}
	}
	s.byGroup[group] = now
	return before
}

// Of is what was last said of a group; the zero Summary: nothing.
func (s *Summaries) Of(group fleet.GroupID) Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byGroup[group]
}

// Count is how many groups have each condition, none left out.
func (s *Summaries) Count() map[string]int {
	counts := map[string]int{}
	for _, what := range explain.Types() {
		counts[what] = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.byGroup {
		for _, c := range st.Conditions {
			if c.Instance == "" {
				counts[c.Type]++
			}
		}
	}
	return counts
}

// Drop forgets a group.
func (s *Summaries) Drop(group fleet.GroupID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byGroup, group)
}

// OfGroup leaves out the conditions of instances.
func OfGroup(all []explain.Condition) []explain.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c explain.Condition) bool { return c.Instance != "" })
}
