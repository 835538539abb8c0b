package agents

import (
	"context"
	"slices"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/refusal"
)

// registry are the streams of the agents that are connected: one for each
// instance, of which the newest counts.
type registry struct {
	metrics *Metrics

	mu       sync.Mutex
	streams  map[identity.ID]*stream
	replaced map[identity.ID]replacements
	closed   bool
}

// cloneLimit is how often in a minute two streams may replace each other before
// two machines are thought to have one identity (F35).
const cloneLimit = 3

// replacements are when streams of one instance were replaced by another, within the last
// minute.
type replacements []time.Time

func (r replacements) and(now time.Time) replacements {
	r = slices.DeleteFunc(r, func(at time.Time) bool { return !now.Before(at.Add(time.Minute)) })
	return append(r, now)
}

var (
	errReplaced = &refusal.Error{Code: refusal.Aborted, Reason: "STREAM_REPLACED", Message: "a newer stream of this instance has taken the place of this one"}
	errDeleted  = &refusal.Error{Code: refusal.PermissionDenied, Reason: "INSTANCE_DELETED", Message: "the instance is deleted"}
)

// add makes s the stream of its instance. Where it replaces another one it says how many
// did so within the last minute.
func (r *registry) add(s *stream, now time.Time) (replaced int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return 0, errTermOver
	case s.over():
		return 0, context.Canceled // whoever ended it has taken it out, or will not find it
	}
	if old := r.streams[s.id]; old != nil {
		old.finish(errReplaced)
		r.replaced[s.id] = r.replaced[s.id].and(now)
		replaced = len(r.replaced[s.id])
	}
	r.streams[s.id] = s
	r.metrics.connected(len(r.streams))
	return replaced, nil
}

// remove takes s out, unless a newer stream has taken its place. It reports
// whether s was the instance's stream.
func (r *registry) remove(s *stream) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams[s.id] != s {
		return false
	}
	delete(r.streams, s.id)
	r.metrics.connected(len(r.streams))
	return true
}

// end ends the stream of an instance that is deleted.
func (r *registry) end(id identity.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.replaced, id)
	if s := r.streams[id]; s != nil {
		s.finish(errDeleted)
	}
}

// has reports whether the instance has a stream.
func (r *registry) has(id identity.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams[id] != nil
}

// of returns the stream of an instance; nil: it has none.
func (r *registry) of(id identity.ID) *stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams[id]
}

// all are the streams, in no order.
func (r *registry) all() []*stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*stream, 0, len(r.streams))
	for _, s := range r.streams {
		all = append(all, s)
	}
	return all
}

// close takes no stream any more, and ends those that are not kept by somebody else.
func (r *registry) close(kept func(*stream) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for id, s := range r.streams {
		if kept(s) {
			delete(r.streams, id)
			continue
		}
		s.finish(errTermOver)
	}
	r.metrics.connected(len(r.streams))
}
