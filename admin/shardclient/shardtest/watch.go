package shardtest

import (
	"maps"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// watcher is one stream; its channel is nearly never full in a test.
type watcher struct {
	groups    chan *nstancev1.GroupEvent    // nil: it is one of instances
	instances chan *nstancev1.InstanceEvent // nil: it is one of groups
	broken    chan struct{}
}

func (s *Shard) subscribe(w *watcher) *watcher {
	w.broken = make(chan struct{})
	if s.watchers == nil {
		s.watchers = map[*watcher]struct{}{}
	}
	s.watchers[w] = struct{}{}
	select {
	case s.watched() <- struct{}{}:
	default:
	}
	return w
}

// Watched returns a channel that gets a value when a stream has begun.
func (s *Shard) Watched() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watched()
}

func (s *Shard) watched() chan struct{} {
	if s.began == nil {
		s.began = make(chan struct{}, 1)
	}
	return s.began
}

func (s *Shard) unsubscribe(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
}

// publish sends what is not nil to all watchers.
func (s *Shard) publish(group *nstancev1.GroupEvent, instance *nstancev1.InstanceEvent) {
	for w := range s.watchers {
		if group != nil && w.groups != nil {
			w.groups <- group
		}
		if instance != nil && w.instances != nil {
			w.instances <- instance
		}
	}
}

// BreakStreams ends all streams as a server does that stops to lead.
func (s *Shard) BreakStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		close(w.broken)
	}
	clear(s.watchers)
}

var errBroken = status.Error(codes.Unavailable, "not shard leader any more")

// WatchGroups implements the operator API.
func (s *Shard) WatchGroups(_ *emptypb.Empty, stream grpc.ServerStreamingServer[nstancev1.GroupEvent]) error {
	s.mu.Lock()
	s.called(stream.Context())
	w := s.subscribe(&watcher{groups: make(chan *nstancev1.GroupEvent, 1000)})
	for _, key := range slices.Sorted(maps.Keys(s.groups)) {
		w.groups <- &nstancev1.GroupEvent{Type: "UPSERT", Group: s.group(key)}
	}
	s.mu.Unlock()
	defer s.unsubscribe(w)
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-w.broken:
			return errBroken
		case e := <-w.groups:
			if err := stream.Send(e); err != nil {
				return err
			}
		}
	}
}

// WatchInstances implements the operator API.
func (s *Shard) WatchInstances(_ *nstancev1.WatchInstancesRequest, stream grpc.ServerStreamingServer[nstancev1.InstanceEvent]) error {
	s.mu.Lock()
	s.called(stream.Context())
	w := s.subscribe(&watcher{instances: make(chan *nstancev1.InstanceEvent, 1000)})
	w.instances <- &nstancev1.InstanceEvent{Status: "snapshot_end"}
	s.mu.Unlock()
	defer s.unsubscribe(w)
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-w.broken:
			return errBroken
		case e := <-w.instances:
			if err := stream.Send(e); err != nil {
				return err
			}
		}
	}
}

// WatchErrors implements the operator API: nothing goes wrong.
func (s *Shard) WatchErrors(_ *emptypb.Empty, stream grpc.ServerStreamingServer[nstancev1.ErrorEvent]) error {
	<-stream.Context().Done()
	return stream.Context().Err()
}
