package shardtest

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Hold adds a machine without a record.
func (s *Shard) Hold(vm *nstancev1.HeldVM) {
	s.mu.Lock()
	defer s.mu.Unlock()
	vm = proto.CloneOf(vm)
	vm.Since, vm.CreatedAt = timestamppb.New(Epoch), timestamppb.New(Epoch)
	s.held = append(s.held, vm)
}

// ListHeldVMs implements the operator API.
func (s *Shard) ListHeldVMs(ctx context.Context, _ *emptypb.Empty) (*nstancev1.ListHeldVMsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	return proto.CloneOf(&nstancev1.ListHeldVMsResponse{Vms: s.held}), nil
}

// AdoptVM implements the operator API.
func (s *Shard) AdoptVM(ctx context.Context, r *nstancev1.AdoptVMRequest) (*nstancev1.InstanceStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	i := slices.IndexFunc(s.held, func(vm *nstancev1.HeldVM) bool { return vm.GetProviderInstanceId() == r.GetProviderInstanceId() })
	switch {
	case i < 0:
		return nil, status.Errorf(codes.NotFound, "no machine %q is unmanaged", r.GetProviderInstanceId())
	case s.held[i].GetGroup() == "":
		return nil, status.Error(codes.FailedPrecondition, "the machine cannot be adopted: its tags do not name a tenant and a group")
	}
	in := &nstancev1.InstanceStatus{InstanceId: s.held[i].GetInstanceId(), Group: s.held[i].GetGroup(), ProviderInstanceId: r.GetProviderInstanceId()}
	s.held = slices.Delete(s.held, i, i+1)
	s.create(in)
	return proto.CloneOf(in), nil
}
