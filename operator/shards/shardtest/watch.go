package shardtest

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// heartbeat is how often a stream of instances shows that it lives.
const heartbeat = 15 * time.Second

// event is something that happened; one field is set.
type event struct {
	group    *nstancev1.GroupEvent
	instance *nstancev1.InstanceEvent
	failure  *nstancev1.ErrorEvent
	machine  *nstancev1.MachineEvent
}

// watcher is an open stream of a tenant.
type watcher struct {
	tenant string
	events chan event
	over   chan error // gets the reason when the server ends it
}

var errNoLeader = status.Error(codes.Unavailable, "not shard leader any more")

// EndStreams ends all open streams as a server does that leads no more.
func (s *Shard) EndStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endStreams()
}

func (s *Shard) endStreams() {
	for w := range s.watchers {
		w.over <- errNoLeader
	}
	clear(s.watchers)
}

// Streams returns how many streams are open.
func (s *Shard) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watchers)
}

// Send sends an instance event of any content to the watchers of a tenant.
func (s *Shard) Send(tenant string, e *nstancev1.InstanceEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send(tenant, event{instance: e})
}

func (s *Shard) watch(tenant string) *watcher {
	w := &watcher{tenant: tenant, events: make(chan event, 4096), over: make(chan error, 1)}
	s.watchers[w] = struct{}{}
	return w
}

func (s *Shard) unwatch(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
}

// send hands an event to the watchers of a tenant; one that is too slow is ended.
func (s *Shard) send(tenant string, e event) {
	for w := range s.watchers {
		if w.tenant != tenant {
			continue
		}
		select {
		case w.events <- e:
		default:
			w.over <- Refusal(codes.ResourceExhausted, "WATCHER_TOO_SLOW", "the watcher is too slow; connect again for a new snapshot")
			delete(s.watchers, w)
		}
	}
}

func (s *Shard) publishGroup(g *group) {
	s.send(g.GetTenant(), event{group: &nstancev1.GroupEvent{Type: "UPSERT", Group: s.counted(g)}})
}

// publish gives an instance a new revision and tells the watchers.
func (s *Shard) publish(in *instance, what, reason string) {
	s.revise(in)
	s.send(in.GetTenant(), event{instance: s.instanceEvent(in, what, reason)})
}

// Brief has events leave out the instance, as servers did before they sent it along.
func (s *Shard) Brief() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.brief = true
}

func (s *Shard) instanceEvent(in *instance, what, reason string) *nstancev1.InstanceEvent {
	e := &nstancev1.InstanceEvent{
		InstanceId: in.GetInstanceId(), Tenant: in.GetTenant(), Group: in.GetGroup(),
		ProviderInstanceId: in.GetProviderInstanceId(), Status: what, Reason: reason, Revision: in.GetRevision(),
	}
	if c := in.GetCondemned(); c != nil {
		e.DeleteAt, e.UnhealthyAt = c.GetDeleteAt(), timestamppb.New(time.Now())
	}
	if what != "deleted" && !s.brief {
		e.Instance = proto.CloneOf(in.InstanceStatus)
	}
	return e
}

// WatchGroups implements the operator API.
func (s *Shard) WatchGroups(_ *emptypb.Empty, stream grpc.ServerStreamingServer[nstancev1.GroupEvent]) error {
	tenant := tenantOf(stream.Context())
	s.mu.Lock()
	w := s.watch(tenant)
	snapshot := s.groupsOf(tenant)
	s.mu.Unlock()
	defer s.unwatch(w)
	for _, g := range snapshot {
		if err := stream.Send(&nstancev1.GroupEvent{Type: "UPSERT", Group: g}); err != nil {
			return err
		}
	}
	return pump(stream.Context(), w, nil, func(e event) error {
		if e.group == nil {
			return nil
		}
		return stream.Send(e.group)
	})
}

// WatchInstances implements the operator API.
func (s *Shard) WatchInstances(r *nstancev1.WatchInstancesRequest, stream grpc.ServerStreamingServer[nstancev1.InstanceEvent]) error {
	tenant := tenantOf(stream.Context())
	s.mu.Lock()
	if r.GetCoordinatesDrains() {
		s.drains[tenant] = true
	}
	w := s.watch(tenant)
	var snapshot []*nstancev1.InstanceEvent
	for _, in := range s.instances {
		if in.GetTenant() != tenant || in.GetCondemned() == nil {
			continue
		}
		what := "deleting"
		if in.GetStatus() == "draining" {
			what = "pending_deletion"
		}
		snapshot = append(snapshot, s.instanceEvent(in, what, in.GetCondemned().GetReason()))
	}
	beats := !s.faults.NoHeartbeats
	s.mu.Unlock()
	defer s.unwatch(w)
	for _, e := range append(snapshot, &nstancev1.InstanceEvent{Status: "snapshot_end"}) {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	var ticks <-chan time.Time
	if beats {
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		ticks = ticker.C
	}
	return pump(stream.Context(), w, ticks, func(e event) error {
		switch {
		case e == event{}:
			s.mu.Lock()
			silent, digest := s.faults.Silent, s.digest
			s.mu.Unlock()
			if silent {
				return nil
			}
			return stream.Send(&nstancev1.InstanceEvent{Status: "heartbeat", ConfigDigest: digest})
		case e.instance == nil:
			return nil
		}
		return stream.Send(e.instance)
	})
}

// WatchErrors implements the operator API.
func (s *Shard) WatchErrors(_ *emptypb.Empty, stream grpc.ServerStreamingServer[nstancev1.ErrorEvent]) error {
	s.mu.Lock()
	w := s.watch(tenantOf(stream.Context()))
	s.mu.Unlock()
	defer s.unwatch(w)
	return pump(stream.Context(), w, nil, func(e event) error {
		if e.failure == nil {
			return nil
		}
		return stream.Send(e.failure)
	})
}

// pump sends what happens until the stream ends; a tick sends the empty event.
func pump(ctx context.Context, w *watcher, ticks <-chan time.Time, send func(event) error) error {
	for {
		var e event
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-w.over:
			return err
		case <-ticks:
		case e = <-w.events:
		}
		if err := send(e); err != nil {
			return err
		}
	}
}
