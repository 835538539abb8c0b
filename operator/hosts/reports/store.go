package reports

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"nstance.dev/operator/hosts/lifecycle"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Store holds what shards say. New makes one; it is safe for concurrent use.
type Store struct {
	any chan struct{} // closed once somebody wants to hear of any shard's hosts

	mu        sync.Mutex
	shards    map[string]*shard
	listeners map[*listener]struct{}
}

// shard is what one shard has said.
type shard struct {
	wanted chan struct{} // closed once somebody wants to hear of its hosts
	known  bool          // the snapshot has ended, and the stream has not
	stream int           // how many have begun
	hosts  map[string]*nstancev1.MachineState
	// named are those that the snapshot which is being received has named.
	named map[string]bool
}

// listener is a controller that hears of changes.
type listener struct {
	requests func(ctx context.Context, instance string) []reconcile.Request
	changed  chan struct{}

	mu    sync.Mutex
	noted map[string]bool
}

var _ shards.MachineSink = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{any: make(chan struct{}), shards: map[string]*shard{}, listeners: map[*listener]struct{}{}}
}

// Wanted is closed once there is a machine whose host is asked for.
func (s *Store) Wanted() <-chan struct{} { return s.any }

func (s *Store) of(name string) *shard {
	if s.shards[name] == nil {
		s.shards[name] = &shard{wanted: make(chan struct{}), hosts: map[string]*nstancev1.MachineState{}}
	}
	return s.shards[name]
}

// Want has a shard asked for its hosts from now on.
func (s *Store) Want(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of(name)
	select {
	case <-of.wanted:
	default:
		close(of.wanted)
	}
	select {
	case <-s.any:
	default:
		close(s.any)
	}
}

// MachinesWanted implements [shards.MachineSink].
func (s *Store) MachinesWanted(name string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(name).wanted
}

// MachinesOpened implements [shards.MachineSink].
func (s *Store) MachinesOpened(name string) (closed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of(name)
	of.known, of.named = false, map[string]bool{}
	of.stream++
	stream := of.stream
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if of.stream == stream { // else the next one has begun
			of.known = false
		}
	}
}

// MachineEvent implements [shards.MachineSink].
func (s *Store) MachineEvent(name string, e *nstancev1.MachineEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, id := s.of(name), e.GetInstanceId()
	switch e.GetType() {
	case "machine":
		of.hosts[id] = e.GetMachine()
		if of.named != nil {
			of.named[id] = true
		}
		if of.known {
			s.note(id)
		}
	case "removed":
		delete(of.hosts, id)
		if of.known {
			s.note(id)
		}
	case "snapshot_end":
		var all []string
		for id := range of.hosts {
			all = append(all, id)
			if of.named != nil && !of.named[id] {
				delete(of.hosts, id)
			}
		}
		of.known, of.named = true, nil
		s.note(all...)
	}
}

// Host returns what is known of the host of an instance.
func (s *Store) Host(name, instance string) lifecycle.Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of(name)
	return observe(of.known, of.hosts[instance])
}

// State returns the last word about the host of an instance; nil: there is none. Nobody may change it.
func (s *Store) State(name, instance string) *nstancev1.MachineState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(name).hosts[instance]
}

// note tells listeners of instances; mu is held.
func (s *Store) note(instances ...string) {
	for l := range s.listeners {
		l.mu.Lock()
		for _, id := range instances {
			l.noted[id] = true
		}
		l.mu.Unlock()
		select {
		case l.changed <- struct{}{}:
		default:
		}
	}
}

// Source returns a source of requests for one controller: requests returns those that follow from
// news of an instance. It may wait, for a cache for example.
func (s *Store) Source(requests func(ctx context.Context, instance string) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		l := &listener{requests: requests, changed: make(chan struct{}, 1), noted: map[string]bool{}}
		s.mu.Lock()
		s.listeners[l] = struct{}{}
		s.mu.Unlock()
		go func() {
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.listeners, l)
			}()
			l.run(ctx, queue)
		}()
		return nil
	})
}

func (l *listener) run(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
		}
		l.mu.Lock()
		noted := l.noted
		l.noted = map[string]bool{}
		l.mu.Unlock()
		for id := range noted {
			for _, request := range l.requests(ctx, id) {
				queue.Add(request)
			}
		}
	}
}
