package shard

import (
	"context"
	"errors"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/lease"
)

// parking keeps the streams of agents while this server has lost the shard's lock
// and nobody else is known to have it (F1): a machine is not to notice that storage
// is away. Nothing is done on a parked stream and nothing is sent; what its agent
// says waits. It goes on when this server leads again, and ends as soon as another
// one does, or after a while, for that may be hidden from this server (L6).
//
// The zero value is ready, and nil parks nothing.
type parking struct {
	mu      sync.Mutex
	streams map[*session]struct{}
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

// keeps reports whether the streams of a reign that ended for this reason may go
// on: not where the server itself is to stop.
func keeps(why error) bool {
	return errors.Is(why, lease.ErrNotLeader) || errors.Is(why, lease.ErrSuperseded)
}

// add parks a stream. It reports whether it did.
func (p *parking) add(s *session, limit time.Duration) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.park() {
		return false
	}
	if p.streams == nil {
		p.streams = map[*session]struct{}{}
	}
	p.streams[s] = struct{}{}
	if p.limit == nil {
		p.limit = time.AfterFunc(limit, p.endAll)
	}
	return true
}

// remove lets go of a stream that has ended.
func (p *parking) remove(s *session) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.streams, s)
}

// clear returns what was parked and lets go of it.
func (p *parking) clear() map[*session]struct{} {
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

// endAll has the agents look for the leader.
func (p *parking) endAll() {
	for s := range p.clear() {
		s.finish(errNotLeader)
	}
}

// resume gives the streams to the reign that serves now.
func (p *parking) resume(r *Reign) {
	for s := range p.clear() {
		r.tasks.Go(func() { s.resume(r) })
	}
}

// park keeps what the agent says from being acted on, and drops what was to be
// sent: it follows from the state and is derived again. A stream that has ended is
// not parked.
func (s *session) park() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.parked, s.queue, s.bytes = make(chan struct{}), nil, 0
	return true
}

// resume goes on under another reign, which tells the agent so, unless it does not
// know the agent any more or has a newer stream of it.
func (s *session) resume(r *Reign) {
	s.serving.Lock() // what was under way under the reign before ends first
	defer s.serving.Unlock()
	s.entry.Lock()
	s.mu.Lock()
	s.r = r
	parked := s.parked
	s.parked = nil
	s.mu.Unlock()
	s.entry.Unlock()
	defer close(parked)
	if err := s.readmit(); err != nil {
		s.finish(err)
		return
	}
	s.introduce()
}

// readmit asks of a parked stream what was asked when it was opened.
func (s *session) readmit() error {
	row, _ := s.r.cache.Instance(s.id)
	err := s.r.AdmitAgent(identity.Peer{
		ID: s.id, Tenant: row.Group.Tenant, Cluster: s.r.opts.Cluster, Shard: s.r.opts.Shard, Serial: s.serial, NotAfter: s.expires,
	})
	switch {
	case err != nil:
		return err
	case s.r.sessions.has(s.id):
		return errReplaced
	}
	return s.enter()
}

// attend deals with one message of the agent, once there is a leader to deal with
// it.
func (s *session) attend(msg *nstancev1.AgentMessage) error {
	for {
		s.serving.Lock()
		s.mu.Lock()
		parked := s.parked
		s.mu.Unlock()
		if parked == nil {
			defer s.serving.Unlock()
			return s.handleSafely(msg)
		}
		s.serving.Unlock()
		select {
		case <-parked:
		case <-s.done:
			return context.Canceled // nobody is told any more
		case <-s.stream.Context().Done():
			return s.stream.Context().Err()
		}
	}
}

// proves reports whether this server leads at this moment: nothing leaves on a
// stream otherwise, certificates least of all (S2).
func (s *session) proves() bool {
	s.mu.Lock()
	r := s.r
	s.mu.Unlock()
	return lease.Check(r.ctx) == nil
}

// EndParked has agents whose streams wait here for a leader look for it themselves:
// another server leads, or this one stops.
func (s *Shard) EndParked() { s.parking.endAll() }
