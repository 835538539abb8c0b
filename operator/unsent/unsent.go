// Package unsent knows the sizes that are on their way from MachinePools to their shards.
//
// When a hundred pools are scaled at once, all that the operator writes goes through one API
// server, and machines wait for it. So what no machine waits for is written later: a controller
// asks [Sizes.Defer] before it writes a status, and [Sizes.Transport] holds events back. Neither
// waits longer than [MaxWait], whatever happens to the sizes.
//
// It decides about order alone: that a size is noted, or forgotten, changes nothing of what is
// sent. Nothing is written here.
package unsent

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MaxWait is how long a size is waited for, and how long a status or an event waits at most.
const MaxWait = 10 * time.Second

// How long a controller waits before it asks again whether it may write: PerSize for each size that has not been sent, as
// long as a busy API server takes for one, and at least AskAgain. More questions would take the processor from the sizes.
const (
	AskAgain = time.Second
	PerSize  = 10 * time.Millisecond
)

// Object names an object: one that a size has to pass, or one whose status waits. [Pool],
// [ShardGroup] and [Machine] make them.
type Object struct {
	kind string
	name client.ObjectKey
}

// Pool names an NstanceMachinePool.
func Pool(name client.ObjectKey) Object { return Object{"pool", name} }

// ShardGroup names an NstanceShardGroup.
func ShardGroup(name client.ObjectKey) Object { return Object{"shard group", name} }

// Machine names an NstanceMachine.
func Machine(name client.ObjectKey) Object { return Object{"machine", name} }

// Sizes are the sizes that their shards have not heard yet. NewSizes makes them; on nil there
// are none, and nothing waits. It is safe for concurrent use.
type Sizes struct {
	now func() time.Time

	mu       sync.Mutex
	unsent   map[Object]size
	deferred map[Object]time.Time // since when a status waits
}

// size is one that stands in an object and has to go on.
type size struct {
	generation int64
	since      time.Time
}

// NewSizes returns none, with a clock.
func NewSizes(now func() time.Time) *Sizes {
	return &Sizes{now: now, unsent: map[Object]size{}, deferred: map[Object]time.Time{}}
}

// Add notes that a generation of an object has a size that has to go on.
func (s *Sizes) Add(o Object, generation int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, known := s.unsent[o]; !known || was.generation < generation {
		s.unsent[o] = size{generation, s.now()}
	}
}

// Done forgets an object whose size has gone on, or need not or cannot, as of a generation.
func (s *Sizes) Done(o Object, generation int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsent[o].generation <= generation {
		delete(s.unsent, o)
	}
}

// Defer returns after which pause to ask again whether the status of an object may be written;
// zero: it may be now.
func (s *Sizes) Defer(o Object) time.Duration {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	since, known := s.deferred[o]
	if !known || now.Sub(since) >= 2*MaxWait { // nobody asked again at the time: what waits now is another status
		since = now
	}
	waited := now.Sub(since)
	if !s.busy(now) || waited >= MaxWait {
		delete(s.deferred, o)
		return 0
	}
	s.deferred[o] = since
	return min(max(AskAgain, time.Duration(len(s.unsent))*PerSize), MaxWait-waited)
}

// busy is whether there are sizes that are waited for.
func (s *Sizes) busy(now time.Time) bool {
	for o, size := range s.unsent {
		if now.Sub(size.since) < MaxWait {
			return true
		}
		delete(s.unsent, o)
	}
	return false
}

// Transport returns next with a wait before new events are sent. A request that ends while it waits
// is sent at once, and fails as it would.
func (s *Sizes) Transport(next http.RoundTripper) http.RoundTripper {
	return transport{s, next}
}

type transport struct {
	sizes *Sizes
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/apis/events.k8s.io/") {
		t.sizes.wait(r)
	}
	return t.next.RoundTrip(r)
}

func (s *Sizes) wait(r *http.Request) {
	for end := s.now().Add(MaxWait); s.now().Before(end); {
		s.mu.Lock()
		busy := s.busy(s.now())
		s.mu.Unlock()
		if !busy {
			return
		}
		timer := time.NewTimer(AskAgain)
		select {
		case <-r.Context().Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
