package shard

import (
	"context"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/refusal"
)

// sessions are the streams of the agents that are connected: one for each
// instance, of which the newest counts.
type sessions struct {
	r *Reign

	mu     sync.Mutex
	byID   map[identity.ID]*session
	clones map[identity.ID]*window // replacements of a stream by another
	closed bool
}

// cloneLimit is how often in a minute two streams may replace each other before
// two machines are thought to have one identity (F35).
const cloneLimit = 3

func newSessions(r *Reign) *sessions {
	return &sessions{r: r, byID: map[identity.ID]*session{}, clones: map[identity.ID]*window{}}
}

var (
	errReplaced = &refusal.Error{Code: refusal.Aborted, Reason: "STREAM_REPLACED", Message: "a newer stream of this instance has taken the place of this one"}
	errDeleted  = &refusal.Error{Code: refusal.PermissionDenied, Reason: "INSTANCE_DELETED", Message: "the instance is deleted"}
)

// open makes s the stream of its instance.
func (ss *sessions) open(s *session) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	switch {
	case ss.closed:
		return errReignOver
	case s.over():
		return context.Canceled // whoever ended it has taken it out, or will not find it
	}
	if old := ss.byID[s.id]; old != nil {
		old.finish(errReplaced)
		ss.noteReplaced(s.id)
	}
	ss.byID[s.id] = s
	ss.r.files.Connect(s.id, s)
	ss.r.opts.Metrics.streams.Set(float64(len(ss.byID)))
	return nil
}

// noteReplaced raises the alarm when two streams keep replacing each other.
// Neither machine is deleted for that alone.
func (ss *sessions) noteReplaced(id identity.ID) {
	w := ss.clones[id]
	if w == nil {
		w = &window{span: time.Minute}
		ss.clones[id] = w
	}
	now := ss.r.now()
	w.add(now)
	if room, _ := w.room(cloneLimit+1, now); room > 0 {
		return
	}
	row, _ := ss.r.cache.Instance(id)
	ss.r.log.Error("two machines have one identity: their streams keep replacing each other", "instance", id)
	ss.r.events.failure(ss.r.cache, row.Group, id, "auth", "two machines connect with the identity of this instance; one may be a clone", now)
}

// close takes s out, unless a newer stream has taken its place. It reports
// whether s was the instance's stream.
func (ss *sessions) close(s *session) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.byID[s.id] != s {
		return false
	}
	delete(ss.byID, s.id)
	ss.r.files.Disconnect(s.id, s)
	ss.r.opts.Metrics.streams.Set(float64(len(ss.byID)))
	return true
}

// end cuts the stream of a deleted instance off (S13).
func (ss *sessions) end(id identity.ID) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.clones, id)
	if s := ss.byID[id]; s != nil {
		s.finish(errDeleted)
	}
}

// has reports whether the instance has a stream.
func (ss *sessions) has(id identity.ID) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.byID[id] != nil
}

// closeAll lets go of every stream, because this server does not lead any more:
// where the lease was lost they are parked, else they end.
func (ss *sessions) closeAll() {
	keep := keeps(context.Cause(ss.r.ctx))
	limit := parkLimit(ss.r.wanted.config().Server.HealthCheckInterval.Std())
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.closed = true
	for id, s := range ss.byID {
		if keep && ss.r.parking.add(s, limit) {
			delete(ss.byID, id)
			continue
		}
		s.finish(errReignOver)
	}
	ss.r.opts.Metrics.streams.Set(float64(len(ss.byID)))
}

// welcomeAll tells every connected agent what has changed for it.
func (ss *sessions) welcomeAll() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.byID {
		s.Offer(ss.r.welcome())
	}
}
