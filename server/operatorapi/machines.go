package operatorapi

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/hosts"
	"nstance.dev/server/layout"
	"nstance.dev/server/power"
	"nstance.dev/server/refusal"
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

// PutPrebuild implements [nstancev1.OperatorServiceServer].
func (s *Service) PutPrebuild(ctx context.Context, req *nstancev1.PutPrebuildRequest) (*emptypb.Empty, error) {
	c := CallerOf(ctx)
	return &emptypb.Empty{}, c.leader().PutPrebuild(ctx, c.Tenant, req)
}

// SetHold implements [nstancev1.OperatorServiceServer].
func (s *Service) SetHold(ctx context.Context, req *nstancev1.SetHoldRequest) (*nstancev1.Hold, error) {
	c := CallerOf(ctx)
	return c.leader().SetHold(ctx, c.Tenant, req)
}

// ClearHold implements [nstancev1.OperatorServiceServer].
func (s *Service) ClearHold(ctx context.Context, req *nstancev1.ClearHoldRequest) (*emptypb.Empty, error) {
	c := CallerOf(ctx)
	return &emptypb.Empty{}, c.leader().ClearHold(ctx, c.Tenant, req)
}

// SetHold is [hosts.Holds.Set].
func (l Leader) SetHold(ctx context.Context, tenant string, req *nstancev1.SetHoldRequest) (out *nstancev1.Hold, err error) {
	var until time.Time
	if req.Until != nil {
		until = req.Until.AsTime()
	}
	err = l.ofInstance(tenant, req.InstanceId, func(in cache.Instance) error {
		hold, err := l.term.Holds().Set(ctx, in, fleet.HoldReason(req.Reason), until)
		out = holdMessage(hold)
		return err
	})
	return out, err
}

// ClearHold is [hosts.Holds.Clear].
func (l Leader) ClearHold(ctx context.Context, tenant string, req *nstancev1.ClearHoldRequest) error {
	return l.ofInstance(tenant, req.InstanceId, func(in cache.Instance) error {
		return l.term.Holds().Clear(ctx, in, fleet.HoldReason(req.Reason))
	})
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

// PutPrebuild is [hosts.Machines.Prebuild].
func (l Leader) PutPrebuild(ctx context.Context, tenant string, req *nstancev1.PutPrebuildRequest) error {
	return l.ofInstance(tenant, req.InstanceId, func(in cache.Instance) error { return l.term.Machines().Prebuild(ctx, in, req) })
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

// StartOperation implements [nstancev1.OperatorServiceServer].
func (s *Service) StartOperation(ctx context.Context, req *nstancev1.StartOperationRequest) (*nstancev1.OperationStatus, error) {
	c := CallerOf(ctx)
	return c.leader().StartOperation(ctx, c.Tenant, req)
}

// GetOperation implements [nstancev1.OperatorServiceServer].
func (s *Service) GetOperation(ctx context.Context, req *nstancev1.GetOperationRequest) (*nstancev1.OperationStatus, error) {
	c := CallerOf(ctx)
	term := c.leader().term
	out, err := operationStatus(term.Operations().Get(ctx, c.Tenant, req.Id))
	if notFound(err) {
		return term.Machines().Operation(c.Tenant, req.Id)
	}
	return out, err
}

// CancelOperation implements [nstancev1.OperatorServiceServer].
func (s *Service) CancelOperation(ctx context.Context, req *nstancev1.CancelOperationRequest) (*nstancev1.OperationStatus, error) {
	c := CallerOf(ctx)
	term := c.leader().term
	out, err := operationStatus(term.Operations().Cancel(ctx, c.Tenant, req.Id))
	if notFound(err) {
		return term.Machines().CancelOrder(ctx, c.Tenant, req.Id)
	}
	return out, err
}

// notFound reports whether the refusal of a call is that there is no such thing.
func notFound(err error) bool {
	var refused *refusal.Error
	return errors.As(err, &refused) && refused.Code == refusal.NotFound
}

// StartOperation is [hosts.Operations.Start], or [hosts.Machines.Order] for what does not switch power.
func (l Leader) StartOperation(ctx context.Context, tenant string, req *nstancev1.StartOperationRequest) (out *nstancev1.OperationStatus, err error) {
	var deadline time.Time
	if req.Deadline != nil {
		deadline = req.Deadline.AsTime()
	}
	err = l.ofInstance(tenant, req.InstanceId, func(in cache.Instance) error {
		if !slices.Contains(power.Names(), power.Name(req.Name)) {
			out, err = l.term.Machines().Order(ctx, in, hosts.OrderRequest{ID: req.Id, Name: req.Name, Params: req.Parameters, Deadline: deadline})
			return err
		}
		asked := hosts.OperationRequest{ID: req.Id, Name: power.Name(req.Name), Params: req.Parameters, Deadline: deadline}
		out, err = operationStatus(l.term.Operations().Start(ctx, in, asked))
		return err
	})
	return out, err
}

var operationStates = map[power.State]nstancev1.OperationState{
	power.InProgress: nstancev1.OperationState_OPERATION_STATE_IN_PROGRESS,
	power.Complete:   nstancev1.OperationState_OPERATION_STATE_COMPLETE,
	power.Failed:     nstancev1.OperationState_OPERATION_STATE_FAILED,
}

func operationStatus(rec layout.OperationRecord, err error) (*nstancev1.OperationStatus, error) {
	if err != nil {
		return nil, err
	}
	out := &nstancev1.OperationStatus{
		Id: rec.ID, InstanceId: rec.InstanceID.String(), Name: rec.Name, State: operationStates[power.State(rec.State)], Reason: rec.Reason, Message: rec.Message,
		StartedAt: stamp(rec.At.Time), FinishedAt: stamp(rec.EndedAt.Time), Deadline: stamp(rec.Deadline.Time),
	}
	for _, m := range rec.Marks {
		out.Marks = append(out.Marks, &nstancev1.OperationMark{Mark: m.Mark, At: stamp(m.At.Time), Times: int32(min(m.Times, math.MaxInt32))}) //nolint:gosec // bounded
	}
	return out, nil
}
