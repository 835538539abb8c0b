package agents

import (
	"errors"
	"sync"
	"time"

	"nstance.dev/server/lease"
)

// Parking keeps the streams of agents while this server has lost the shard's lock
// and nobody else is known to have it (F1): a machine is not to notice that storage
// is away. Nothing is done on a parked stream and nothing is sent; what its agent
// says waits. It goes on when this server leads again, and ends as soon as another
// one does, or after a while, for that may be hidden from this server (L6).
//
// The zero value is ready, and nil parks nothing. It is safe for concurrent use.
type Parking struct {
	mu      sync.Mutex
	streams map[*stream]struct{}
	limit   *time.Timer // nil while nothing is parked
}

// backBefore is how long before a new leader may judge agents by their silence
// those that were parked here have to look for it.
const backBefore = 30 * time.Second

// parkLimit is how long streams may stay parked: a new leader that began when the
// lease ran out judges nobody whom it has not heard of until agents had time to
// report three times, or for a minute.
func parkLimit(interval time.Duration) time.Duration {
	return max(3*interval, time.Minute) - backBefore
}

// keeps reports whether the streams of a term that ended for this reason may go
// on: not where the server itself is to stop.
func keeps(why error) bool {
	return errors.Is(why, lease.ErrNotLeader) || errors.Is(why, lease.ErrSuperseded)
}

// add parks a stream. It reports whether it did.
func (p *Parking) add(s *stream, limit time.Duration) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.park() {
		return false
	}
	if p.streams == nil {
		p.streams = map[*stream]struct{}{}
	}
	p.streams[s] = struct{}{}
	if p.limit == nil {
		p.limit = time.AfterFunc(limit, p.EndAll)
	}
	return true
}

// remove lets go of a stream that has ended.
func (p *Parking) remove(s *stream) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.streams, s)
}

// clear returns what was parked and lets go of it.
func (p *Parking) clear() map[*stream]struct{} {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	streams := p.streams
	p.streams = nil
	if p.limit != nil {
		p.limit.Stop()
		p.limit = nil
	}
	return streams
}

// EndAll has the agents whose streams are parked look for the leader themselves: another
// server leads, or this one stops.
func (p *Parking) EndAll() {
	for s := range p.clear() {
		s.finish(errNotLeader)
	}
}
