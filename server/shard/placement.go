package shard

import (
	"sync"
	"time"

	"nstance.dev/server/config"
)

// Where a provider had no room, it is not asked again for a while: first this
// long, then twice as long each time, up to the longest.
const (
	firstCoolOff   = 5 * time.Minute
	longestCoolOff = 30 * time.Minute
)

// offering is one thing a provider may have no room for.
type offering struct {
	subnet, instanceType string
}

// placement remembers which offerings were refused for lack of room (L8). It is
// safe for concurrent use.
type placement struct {
	mu   sync.Mutex
	cool map[offering]*coolOff
}

type coolOff struct {
	refusals int
	until    time.Time
}

func newPlacement() *placement { return &placement{cool: map[offering]*coolOff{}} }

// choose returns the first offering of the group that was not refused lately:
// every subnet of its pool for the first type, then for the next one. With none
// left it returns when the earliest may be tried again.
func (p *placement) choose(g *config.EffectiveGroup, now time.Time) (offering, time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var earliest time.Time
	for _, instanceType := range g.InstanceTypes {
		for _, subnet := range g.Subnets {
			o := offering{subnet, instanceType}
			c := p.cool[o]
			if c == nil || !now.Before(c.until) {
				return o, time.Time{}, true
			}
			if earliest.IsZero() || c.until.Before(earliest) {
				earliest = c.until
			}
		}
	}
	return offering{}, earliest, false
}

// refuse takes an offering out of the choice for a while.
func (p *placement) refuse(o offering, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.cool[o]
	if c == nil {
		c = &coolOff{}
		p.cool[o] = c
	}
	if now.Before(c.until) {
		return // one of a burst
	}
	c.until = now.Add(min(firstCoolOff<<min(c.refusals, 8), longestCoolOff))
	c.refusals++
}

// accept forgets the refusals of an offering.
func (p *placement) accept(o offering) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.cool, o)
}
