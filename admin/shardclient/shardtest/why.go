package shardtest

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// GetServerInfo implements the operator API.
func (s *Shard) GetServerInfo(ctx context.Context, _ *emptypb.Empty) (*nstancev1.GetServerInfoResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	at := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(Epoch.Add(d)) }
	return &nstancev1.GetServerInfoResponse{
		ClusterId: "test", Shard: "local", Term: 7, Version: "v1.2.3", LeadingSince: at(time.Hour), Administrator: true,
		Lease: &nstancev1.Lease{RenewedAt: at(48 * time.Hour), ExpiresAt: at(48*time.Hour + 15*time.Second), Holder: "server-1"},
		Storage: []*nstancev1.CallStats{
			{Operation: "get", Calls: 1204, MeanSeconds: 0.004, P50Seconds: 0.0031, P99Seconds: 0.0412},
			{Operation: "put", Calls: 311, Errors: 2, Throttled: 1, MeanSeconds: 0.02, P50Seconds: 0.018, P99Seconds: 1.25},
		},
		ProviderCalls: []*nstancev1.CallStats{{Operation: "list", Calls: 96, P50Seconds: 0.0000421, P99Seconds: 0.25}},
	}, nil
}

// SetPause implements the operator API, for groups; of wider scopes it only says
// that they are paused.
func (s *Shard) SetPause(ctx context.Context, r *nstancev1.SetPauseRequest) (*nstancev1.Pause, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	pause := &nstancev1.Pause{Scope: r.GetScope(), Group: r.GetGroup(), Reason: r.GetReason(), Until: r.GetUntil(), Since: timestamppb.New(Epoch)}
	if r.GetScope() == "group" {
		g := s.groups[r.GetGroup()]
		if g == nil {
			return nil, status.Errorf(codes.NotFound, "group %q not found", r.GetGroup())
		}
		g = proto.CloneOf(g)
		g.Pause = pause
		s.put(g)
	}
	return pause, nil
}

// ClearPause implements the operator API, as far as SetPause does.
func (s *Shard) ClearPause(ctx context.Context, r *nstancev1.ClearPauseRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	if g := s.groups[r.GetGroup()]; g != nil {
		g = proto.CloneOf(g)
		g.Pause = nil
		s.put(g)
	}
	return &emptypb.Empty{}, nil
}

// ConfirmGroups implements the operator API. Of another tenant no group waits.
func (s *Shard) ConfirmGroups(ctx context.Context, r *nstancev1.ConfirmGroupsRequest) (*nstancev1.ConfirmGroupsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	out := &nstancev1.ConfirmGroupsResponse{}
	for _, key := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.groups[key]
		if g.Rebuilt && r.Tenant == nil && (len(r.Keys) == 0 || slices.Contains(r.Keys, key)) {
			g = proto.CloneOf(g)
			g.Rebuilt = false
			s.put(g)
			out.Confirmed = append(out.Confirmed, key)
		}
	}
	return out, nil
}

// Explain implements the operator API with a group that is paused while its first
// instance drains.
func (s *Shard) Explain(ctx context.Context, r *nstancev1.ExplainRequest) (*nstancev1.ExplainResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	out := &nstancev1.ExplainResponse{}
	key := r.GetGroup()
	if id := r.GetInstanceId(); id != "" {
		in, err := s.find(id)
		if err != nil {
			return nil, err
		}
		out.Instance, key = proto.CloneOf(in), in.GetGroup()
		detail(out.Instance)
	}
	if s.groups[key] == nil {
		return nil, status.Errorf(codes.NotFound, "group %q not found", key)
	}
	out.Group = s.group(key)
	at := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(Epoch.Add(40*time.Hour + d)) }
	const held = "paused: the group is paused: moving house"
	out.Conditions = []*nstancev1.Condition{
		{Type: "paused", Message: "the group is paused: moving house", Since: at(0), Until: at(12 * time.Hour)},
		{Type: "scaling", Message: "2 of 3 run, 1 leaving", Since: at(30 * time.Minute)},
	}
	for _, in := range s.instances {
		if in.GetGroup() == key {
			out.Conditions = append(out.Conditions, &nstancev1.Condition{
				Type: "draining", InstanceId: in.GetInstanceId(), Message: "its work gets time to leave (scale-down)", Until: at(13 * time.Hour),
			})
			break
		}
	}
	out.Next = []*nstancev1.Decision{{Time: at(time.Hour), Action: "create", Reason: "2 of 3", HeldBy: held, NotBefore: at(12 * time.Hour)}}
	out.Decisions = []*nstancev1.Decision{
		{Time: at(50 * time.Minute), Action: "create", Reason: "2 of 3", HeldBy: held},
		{Time: at(0), Action: "create", Reason: "0 of 2; 2 at once"},
	}
	return out, nil
}

// PlanConfig implements the operator API: whatever the file, group web would be
// replaced, and a remark made.
func (s *Shard) PlanConfig(ctx context.Context, _ *nstancev1.PlanConfigRequest) (*nstancev1.PlanConfigResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	return &nstancev1.PlanConfigResponse{
		Groups:   []*nstancev1.GroupPlan{{Tenant: "default", Key: "web", Change: "changed", Creates: 1, Rotations: 2, Causes: []string{"size", "args"}}},
		Warnings: []string{"server.provider differs"},
	}, nil
}

// detail adds a life and files to an instance, as answers about one alone have them.
func detail(in *nstancev1.InstanceStatus) {
	after := func(d time.Duration) *timestamppb.Timestamp {
		return timestamppb.New(in.GetCreatedAt().AsTime().Add(d))
	}
	in.Life = []*nstancev1.LifeStep{
		{State: "created", At: in.GetCreatedAt()}, {State: "launched", At: after(2 * time.Second)}, {State: "registered", At: after(40 * time.Second)},
	}
	in.Files = []*nstancev1.InstanceFile{
		{Name: "identity.crt", Kind: "certificate", Current: true, ExpiresAt: after(90 * 24 * time.Hour)},
		{Name: "kubelet.crt", Kind: "certificate", ExpiresAt: after(24 * time.Hour), ModifiedAt: after(time.Minute)},
		{Name: "token", Kind: "secret", Error: "secret token does not exist"},
	}
}
