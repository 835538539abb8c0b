package shardtest

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// SetDemand says what demand mode knows of the tenant's cluster; nil: no group is of that mode.
func (s *Shard) SetDemand(d *nstancev1.GetDemandResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.demand = d
}

// GetDemand implements [nstancev1.OperatorServiceServer].
func (s *Shard) GetDemand(ctx context.Context, _ *nstancev1.GetDemandRequest) (*nstancev1.GetDemandResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	if s.demand == nil {
		return nil, status.Error(codes.FailedPrecondition, "no group of this shard is of mode demand")
	}
	return proto.CloneOf(s.demand), nil
}
