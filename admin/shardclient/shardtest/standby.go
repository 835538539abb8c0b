package shardtest

import (
	"context"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

const errRefused = syscall.ECONNREFUSED

// ListGroups implements the operator API.
func (s Standby) ListGroups(ctx context.Context, _ *emptypb.Empty) (*nstancev1.ListGroupsResponse, error) {
	return nil, s.refuse(trailer(ctx))
}

// GetServerInfo implements the operator API.
func (s Standby) GetServerInfo(ctx context.Context, _ *emptypb.Empty) (*nstancev1.GetServerInfoResponse, error) {
	return nil, s.refuse(trailer(ctx))
}

// CreateInstance implements the operator API.
func (s Standby) CreateInstance(ctx context.Context, _ *nstancev1.CreateInstanceRequest) (*nstancev1.CreateInstanceResponse, error) {
	return nil, s.refuse(trailer(ctx))
}

// WatchGroups implements the operator API.
func (s Standby) WatchGroups(_ *emptypb.Empty, stream grpc.ServerStreamingServer[nstancev1.GroupEvent]) error {
	return s.refuse(func(md metadata.MD) error {
		stream.SetTrailer(md)
		return nil
	})
}

func trailer(ctx context.Context) func(metadata.MD) error {
	return func(md metadata.MD) error { return grpc.SetTrailer(ctx, md) }
}
