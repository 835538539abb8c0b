package shards

import (
	"context"

	"google.golang.org/grpc"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Machines are the calls to a shard that are about the machines of its instances.
type Machines struct{ *Shard }

// Machines returns the calls about machines.
func (s *Shard) Machines() Machines { return Machines{s} }

// PutPrebuild has a host prepare a machine in the background. The class of the error is [Precondition] where its agent is
// not connected or does not prepare machines, and [Unsupported] where the shard is of an earlier release.
func (m Machines) PutPrebuild(ctx context.Context, req *nstancev1.PutPrebuildRequest) error {
	_, err := change(ctx, m.Shard, methodPutPrebuild, about{instance: req.GetInstanceId()}, func(ctx context.Context, api api, o ...grpc.CallOption) (any, error) {
		return api.PutPrebuild(ctx, req, o...)
	})
	return err
}

// SetHold puts an instance on hold, and returns the hold that is in force then. Where it cannot be, the class of
// the error is [Precondition], and its reason says why.
func (m Machines) SetHold(ctx context.Context, req *nstancev1.SetHoldRequest) (*nstancev1.Hold, error) {
	return change(ctx, m.Shard, methodSetHold, about{instance: req.GetInstanceId()}, func(ctx context.Context, api api, o ...grpc.CallOption) (*nstancev1.Hold, error) {
		return api.SetHold(ctx, req, o...)
	})
}

// ClearHold ends the hold of an instance. There need not be one, nor the instance.
func (m Machines) ClearHold(ctx context.Context, req *nstancev1.ClearHoldRequest) error {
	_, err := change(ctx, m.Shard, methodClearHold, about{instance: req.GetInstanceId()}, func(ctx context.Context, api api, o ...grpc.CallOption) (any, error) {
		return api.ClearHold(ctx, req, o...)
	})
	return unless(NotFound, err)
}

// StartOperation begins an operation on an instance, or says how the one of that id is doing.
func (m Machines) StartOperation(ctx context.Context, req *nstancev1.StartOperationRequest) (*nstancev1.OperationStatus, error) {
	return change(ctx, m.Shard, methodStartOperation, about{instance: req.GetInstanceId()}, func(ctx context.Context, api api, o ...grpc.CallOption) (*nstancev1.OperationStatus, error) {
		return api.StartOperation(ctx, req, o...)
	})
}

// GetOperation says how an operation is doing. The class of the error is [NotFound] where it was never
// begun, or was over for long.
func (m Machines) GetOperation(ctx context.Context, id string) (*nstancev1.OperationStatus, error) {
	return change(ctx, m.Shard, methodGetOperation, about{}, func(ctx context.Context, api api, o ...grpc.CallOption) (*nstancev1.OperationStatus, error) {
		return api.GetOperation(ctx, &nstancev1.GetOperationRequest{Id: id}, o...)
	})
}

// CancelOperation cancels an operation, and returns how it is doing.
func (m Machines) CancelOperation(ctx context.Context, id string) (*nstancev1.OperationStatus, error) {
	return change(ctx, m.Shard, methodCancelOperation, about{}, func(ctx context.Context, api api, o ...grpc.CallOption) (*nstancev1.OperationStatus, error) {
		return api.CancelOperation(ctx, &nstancev1.CancelOperationRequest{Id: id}, o...)
	})
}
