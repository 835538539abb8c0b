package shardtest

import (
	"context"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// UpsertGroup implements the operator API: a new group needs a template.
func (s *Shard) UpsertGroup(ctx context.Context, r *nstancev1.UpsertGroupRequest) (*nstancev1.GroupStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	if r.GetConfig() == nil {
		r = &nstancev1.UpsertGroupRequest{Key: r.GetKey(), Config: &nstancev1.GroupConfig{}}
	}
	g := s.groups[r.GetKey()]
	if g == nil {
		if r.GetConfig().Template == nil {
			return nil, invalid("TEMPLATE_REQUIRED", "group \""+r.GetKey()+"\" is new: template is required")
		}
		g = &nstancev1.GroupStatus{Key: r.GetKey(), Tenant: identity.DefaultTenant, Kind: "knc"}
	}
	g = proto.CloneOf(g)
	if r.GetConfig().Template != nil {
		g.Template = r.GetConfig().GetTemplate()
	}
	if r.GetConfig().Size != nil {
		g.Size = r.GetConfig().GetSize()
	}
	if r.GetConfig().GetVars() != nil {
		g.Vars = r.GetConfig().GetVars().GetValues()
	}
	s.put(g)
	s.plan(g.GetKey())
	return s.group(g.GetKey()), nil
}

// CheckGroup implements the operator API: a new group needs a template.
func (s *Shard) CheckGroup(ctx context.Context, r *nstancev1.UpsertGroupRequest) (*nstancev1.CheckGroupResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	creates := s.groups[r.GetKey()] == nil
	if creates && r.GetConfig().GetTemplate() == "" {
		return nil, invalid("TEMPLATE_REQUIRED", "group \""+r.GetKey()+"\" is new: template is required")
	}
	return &nstancev1.CheckGroupResponse{Changes: true, Creates: creates}, nil
}

func invalid(reason, message string) error {
	st, err := status.New(codes.InvalidArgument, message).WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "nstance"})
	if err != nil {
		return err
	}
	return st.Err()
}

// DeleteGroup implements the operator API.
func (s *Shard) DeleteGroup(ctx context.Context, r *nstancev1.DeleteGroupRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	if g := s.groups[r.GetKey()]; g != nil && !g.GetIsStatic() {
		g = proto.CloneOf(g)
		g.Size, g.Deleting = 0, true
		s.put(g)
		s.plan(r.GetKey())
	}
	return &emptypb.Empty{}, nil
}

// CreateInstance implements the operator API.
func (s *Shard) CreateInstance(ctx context.Context, r *nstancev1.CreateInstanceRequest) (*nstancev1.CreateInstanceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	in := &nstancev1.InstanceStatus{InstanceId: r.GetInstanceId(), Group: r.GetConfig().GetGroup(), OnDemand: true}
	s.create(in)
	return &nstancev1.CreateInstanceResponse{InstanceId: in.GetInstanceId(), Status: "pending"}, nil
}

// AcknowledgeDrained implements the operator API.
func (s *Shard) AcknowledgeDrained(ctx context.Context, r *nstancev1.AcknowledgeDrainedRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	if in, err := s.find(r.GetInstanceId()); err == nil {
		s.condemn(in, "requested")
		s.plan(in.GetGroup())
	}
	return &emptypb.Empty{}, nil
}

// DeleteInstance implements the operator API.
func (s *Shard) DeleteInstance(ctx context.Context, r *nstancev1.DeleteInstanceRequest) (*nstancev1.DeleteInstanceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	in, err := s.find(r.GetInstanceId())
	if err != nil {
		return &nstancev1.DeleteInstanceResponse{Status: "unknown"}, nil
	}
	s.condemn(in, "requested")
	if g := s.groups[in.GetGroup()]; g != nil && !in.GetOnDemand() {
		if r.GetDecrementSize() {
			g = proto.CloneOf(g)
			g.Size--
			s.put(g)
		}
		s.plan(in.GetGroup())
	}
	return &nstancev1.DeleteInstanceResponse{Status: "deleting"}, nil
}

// GetConfigStatus implements the operator API.
func (s *Shard) GetConfigStatus(context.Context, *emptypb.Empty) (*nstancev1.GetConfigStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config.shared {
		return &nstancev1.GetConfigStatusResponse{Etag: "part"}, nil
	}
	out := &nstancev1.GetConfigStatusResponse{Etag: "e1", LastModified: timestamppb.New(Epoch), Size: 1234}
	if s.config.rejected != "" {
		out.RejectedEtag, out.RejectedReason = "e2", s.config.rejected
	}
	return out, nil
}

// RefreshConfig implements the operator API.
func (s *Shard) RefreshConfig(context.Context, *emptypb.Empty) (*nstancev1.RefreshConfigResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.config.shared:
		return &nstancev1.RefreshConfigResponse{PrevEtag: "part", Etag: "part"}, nil
	case s.config.read:
		return &nstancev1.RefreshConfigResponse{PrevEtag: "e2", Etag: "e2"}, nil
	}
	s.config.read = true
	return &nstancev1.RefreshConfigResponse{Updated: true, PrevEtag: "e1", Etag: "e2"}, nil
}
