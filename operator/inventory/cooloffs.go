package inventory

import (
	"sync"
	"time"
)

// ShardGroup is a group on a shard.
type ShardGroup struct{ Shard, Group string }

// CoolOffs holds what is known of refusals. It is safe for concurrent use, and its zero
// value is ready: nothing was refused.
type CoolOffs struct {
	mu      sync.RWMutex
	coolOff map[ShardGroup]CoolOff
}

// Refused notes that a provider let a group not grow, and what it said.
func (s *CoolOffs) Refused(at ShardGroup, what Refusal, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.coolOff == nil {
		s.coolOff = map[ShardGroup]CoolOff{}
	}
	s.coolOff[at] = s.coolOff[at].Refused(now, what)
}

// Filled notes that the group has all its instances: there was room after all.
func (s *CoolOffs) Filled(at ShardGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.coolOff, at)
}

// Of returns what is known of one.
func (s *CoolOffs) Of(at ShardGroup) CoolOff {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.coolOff[at]
}
