package shardtest

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// SetHold implements the operator API. A hold begins at [Epoch], and lasts for an hour at most.
func (s *Shard) SetHold(ctx context.Context, r *nstancev1.SetHoldRequest) (*nstancev1.Hold, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	if s.OfBefore {
		return nil, status.Error(codes.Unimplemented, "method SetHold not implemented")
	}
	in, err := s.find(r.GetInstanceId())
	if err != nil {
		return nil, err
	}
	if in.GetCondemned() != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "instance %q is to be deleted: it cannot be put on hold", r.GetInstanceId())
	}
	end := Epoch.Add(time.Hour)
	if until := r.GetUntil(); until != nil && until.AsTime().Before(end) {
		end = until.AsTime()
	}
	in.Hold = &nstancev1.Hold{Reason: r.GetReason(), Since: timestamppb.New(Epoch), Until: timestamppb.New(end)}
	return proto.CloneOf(in.Hold), nil
}

// ClearHold implements the operator API.
func (s *Shard) ClearHold(ctx context.Context, r *nstancev1.ClearHoldRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	in, err := s.find(r.GetInstanceId())
	if err != nil {
		return nil, err
	}
	if r.GetReason() == "" || r.GetReason() == in.GetHold().GetReason() {
		in.Hold = nil
	}
	return &emptypb.Empty{}, nil
}
