package operatorapi

import (
	"context"

	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
)

// PutAssignment implements [nstancev1.OperatorServiceServer].
func (s *Service) PutAssignment(ctx context.Context, req *nstancev1.PutAssignmentRequest) (*emptypb.Empty, error) {
	c := CallerOf(ctx)
	return &emptypb.Empty{}, c.leader().PutAssignment(ctx, c.Tenant, req)
}

// DeleteAssignment implements [nstancev1.OperatorServiceServer].
func (s *Service) DeleteAssignment(ctx context.Context, req *nstancev1.DeleteAssignmentRequest) (*emptypb.Empty, error) {
	c := CallerOf(ctx)
	return &emptypb.Empty{}, c.leader().DeleteAssignment(ctx, c.Tenant, req)
}

// ConfirmNode implements [nstancev1.OperatorServiceServer].
func (s *Service) ConfirmNode(ctx context.Context, req *nstancev1.ConfirmNodeRequest) (*emptypb.Empty, error) {
	c := CallerOf(ctx)
	return &emptypb.Empty{}, c.leader().ConfirmNode(ctx, c.Tenant, req)
}

// PutAssignment is [hosts.Machines.Put].
func (l Leader) PutAssignment(ctx context.Context, tenant string, req *nstancev1.PutAssignmentRequest) error {
	return l.ofInstance(tenant, req.InstanceId, func(in cache.Instance) error { return l.term.Machines().Put(ctx, in, req) })
}

// DeleteAssignment is [hosts.Machines.Delete].
func (l Leader) DeleteAssignment(ctx context.Context, tenant string, req *nstancev1.DeleteAssignmentRequest) error {
	return l.ofInstance(tenant, req.InstanceId, func(in cache.Instance) error { return l.term.Machines().Delete(ctx, in, req) })
}

// ConfirmNode is [hosts.Machines.Confirm].
func (l Leader) ConfirmNode(ctx context.Context, tenant string, req *nstancev1.ConfirmNodeRequest) error {
	return l.ofInstance(tenant, req.InstanceId, func(in cache.Instance) error { return l.term.Machines().Confirm(ctx, in, req) })
}

// WatchMachines is [hosts.Machines.Watch].
func (l Leader) WatchMachines(ctx context.Context, tenant string, send func(*nstancev1.MachineEvent) error) error {
	return l.term.Machines().Watch(ctx, tenant, send)
}

// ofInstance makes a call about an instance of the tenant.
func (l Leader) ofInstance(tenant, id string, call func(cache.Instance) error) error {
	in, err := l.term.Status().FindInstance(tenant, id)
	if err != nil {
		return err
	}
	return call(in)
}
