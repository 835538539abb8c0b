package inventory

import (
	"sync"
	"time"
)

// Place is a group on a shard.
type Place struct{ Shard, Group string }

// CoolOffs holds what is known of refusals. It is safe for concurrent use, and its zero
// value is ready: nothing was refused.
type CoolOffs struct {
	mu      sync.RWMutex
	coolOff map[Place]CoolOff
}

// Refused notes that a provider let a group not grow, and what it said.
func (s *CoolOffs) Refused(at Place, what Refusal, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.coolOff == nil {
		s.coolOff = map[Place]CoolOff{}
	}
	s.coolOff[at] = s.coolOff[at].Refused(now, what)
}

// Filled notes that the group has all its instances: there was room after all.
func (s *CoolOffs) Filled(at Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.coolOff, at)
}

// Of returns what is known of one place.
func (s *CoolOffs) Of(at Place) CoolOff {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.coolOff[at]
}
