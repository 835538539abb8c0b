package shardtest

import (
	"context"
	"slices"
	"strings"

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

// GetDemand implements [nstancev1.OperatorServiceServer]. A need that is asked for is the only one of the answer.
func (s *Shard) GetDemand(ctx context.Context, req *nstancev1.GetDemandRequest) (*nstancev1.GetDemandResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	if s.demand == nil {
		return nil, status.Error(codes.FailedPrecondition, "no group of this shard is of mode demand")
	}
	out := proto.CloneOf(s.demand)
	if req.GetNeed() == "" {
		out.Explanation = nil
		return out, nil
	}
	out.Machines, out.Planned = nil, nil
	out.Needs = slices.DeleteFunc(out.Needs, func(n *nstancev1.DemandNeed) bool { return !strings.HasPrefix(n.GetId(), req.GetNeed()) })
	if len(out.Needs) == 0 {
		return nil, status.Errorf(codes.NotFound, "need: the cluster has none whose id begins with %q", req.GetNeed())
	}
	return out, nil
}
