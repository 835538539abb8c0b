package shardtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// holds are how long each kind lasts at most, the weakest first.
var holds = []struct {
	reason  string
	longest time.Duration
}{{"rollout", 24 * time.Hour}, {"reboot", 15 * time.Minute}, {"repave", 45 * time.Minute}, {"power", 24 * time.Hour}}

// weight is the place of a reason in the order of holds, from 1; 0: it is none.
func weight(reason string) int {
	for i, h := range holds {
		if h.reason == reason {
			return i + 1
		}
	}
	return 0
}

// operation is one that switches the power of an instance, or that its host carries out.
type operation struct {
	tenant string
	*nstancev1.OperationStatus
}

// rotates is whether another instance of the group is replaced for its age or configuration.
func (s *Shard) rotates(but *instance) bool {
	for _, in := range s.instances {
		why := in.GetCondemned().GetReason()
		if in != but && in.GetGroup() == but.GetGroup() && in.GetTenant() == but.GetTenant() && (why == "expired" || why == "config-drift") {
			return true
		}
	}
	return false
}

func held(in *instance) bool {
	return in.GetHold() != nil && time.Now().Before(in.GetHold().GetUntil().AsTime())
}

// SetHold implements the operator API.
func (s *Shard) SetHold(ctx context.Context, r *nstancev1.SetHoldRequest) (*nstancev1.Hold, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in, w := s.owned(ctx, r.GetInstanceId()), weight(r.GetReason())
	switch {
	case w == 0:
		return nil, Refusal(codes.InvalidArgument, "INVALID_HOLD", "no such reason")
	case in == nil:
		return nil, Refusal(codes.NotFound, "NOT_FOUND", "no such instance")
	case in.GetCondemned() != nil:
		return nil, Refusal(codes.FailedPrecondition, "INSTANCE_LEAVING", "the instance is to be deleted")
	case in.GetRegisteredAt() == nil:
		return nil, Refusal(codes.FailedPrecondition, "NOT_REGISTERED", "the instance has not registered yet")
	case r.GetReason() == "rollout" && s.rotates(in):
		return nil, Refusal(codes.FailedPrecondition, "GROUP_ROTATING", "another instance of the group is being replaced")
	case held(in) && weight(in.GetHold().GetReason()) > w:
		return nil, Refusal(codes.FailedPrecondition, "ON_HOLD", "the instance is on hold for something else")
	}
	since := timestamppb.Now()
	if held(in) && in.GetHold().GetReason() == r.GetReason() {
		since = in.GetHold().GetSince()
	}
	end := since.AsTime().Add(holds[w-1].longest)
	if until := r.GetUntil(); until != nil && until.AsTime().Before(end) {
		end = until.AsTime()
	}
	in.Hold = &nstancev1.Hold{Reason: r.GetReason(), Since: since, Until: timestamppb.New(end)}
	s.publish(in, "hold", "")
	return proto.CloneOf(in.Hold), nil
}

// ClearHold implements the operator API.
func (s *Shard) ClearHold(ctx context.Context, r *nstancev1.ClearHoldRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.owned(ctx, r.GetInstanceId())
	if in == nil {
		return nil, Refusal(codes.NotFound, "NOT_FOUND", "no such instance")
	}
	if in.GetHold() != nil && (r.GetReason() == "" || r.GetReason() == in.GetHold().GetReason()) {
		in.Hold = nil
		s.publish(in, "hold", "")
	}
	return &emptypb.Empty{}, nil
}

// Hold returns the hold of an instance that is in force; nil: there is none.
func (s *Shard) Hold(id string) *nstancev1.Hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.find(id); in != nil && held(in) {
		return proto.CloneOf(in.Hold)
	}
	return nil
}

// switched is how an instance is once an operation has switched its power.
var switched = map[string]string{"powerOff": "powered-off", "powerOn": "running", "powerCycle": "running"}

// StartOperation implements the operator API: it takes what switches power, and what the host of the instance has
// reported that it carries out. The machine is switched at once, and the operation is over when
// [Shard.EndOperation] says so.
func (s *Shard) StartOperation(ctx context.Context, r *nstancev1.StartOperationRequest) (*nstancev1.OperationStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if op := s.operationOf(ctx, r.GetId()); op != nil {
		return proto.CloneOf(op.OperationStatus), nil
	}
	in := s.owned(ctx, r.GetInstanceId())
	switch {
	case in == nil:
		return nil, Refusal(codes.NotFound, "NOT_FOUND", "no such instance")
	case in.GetCondemned() != nil:
		return nil, Refusal(codes.FailedPrecondition, "INSTANCE_LEAVING", "the instance is to be deleted")
	case in.GetMachine() == nil:
		return nil, Refusal(codes.FailedPrecondition, "NO_NODE_MACHINE", "the instance has no node machine")
	}
	status, switches := switched[r.GetName()]
	switch {
	case switches && (!held(in) || in.GetHold().GetReason() != "power"):
		return nil, Refusal(codes.FailedPrecondition, "NO_HOLD", "the instance is not on hold for power")
	case switches:
		in.Status = status
		s.publish(in, "power", "")
	case !r.GetDeadline().IsValid() || !time.Now().Before(r.GetDeadline().AsTime()):
		return nil, Refusal(codes.InvalidArgument, "INVALID_OPERATION", "deadline: it is missing, or has passed")
	case !s.offered(in, r.GetName()):
		return nil, Refusal(codes.FailedPrecondition, "OPERATION_NOT_OFFERED", "the host of the instance does not offer that operation")
	}
	s.operations[r.GetId()] = &operation{tenantOf(ctx), &nstancev1.OperationStatus{
		Id: r.GetId(), InstanceId: r.GetInstanceId(), Name: r.GetName(), State: nstancev1.OperationState_OPERATION_STATE_IN_PROGRESS,
		StartedAt: timestamppb.Now(), Deadline: r.GetDeadline(), Marks: []*nstancev1.OperationMark{{Mark: "intent", At: timestamppb.Now(), Times: 1}},
	}}
	return proto.CloneOf(s.operations[r.GetId()].OperationStatus), nil
}

// offered reports whether the host of an instance says that it carries operations of a name out.
func (s *Shard) offered(in *instance, name string) bool {
	h := s.hosts[in.GetInstanceId()]
	if h == nil || !h.connected {
		return false
	}
	return slices.ContainsFunc(h.status.GetExecutors(), func(e *nstancev1.MachineExecutor) bool { return slices.Contains(e.GetOperations(), name) })
}

// GetOperation implements the operator API.
func (s *Shard) GetOperation(ctx context.Context, r *nstancev1.GetOperationRequest) (*nstancev1.OperationStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if op := s.operationOf(ctx, r.GetId()); op != nil {
		return proto.CloneOf(op.OperationStatus), nil
	}
	return nil, Refusal(codes.NotFound, "NOT_FOUND", "no such operation")
}

// CancelOperation implements the operator API: what is under way goes on.
func (s *Shard) CancelOperation(ctx context.Context, r *nstancev1.CancelOperationRequest) (*nstancev1.OperationStatus, error) {
	return s.GetOperation(ctx, &nstancev1.GetOperationRequest{Id: r.GetId()})
}

// operationOf is an operation of the caller's tenant; nil: there is none.
func (s *Shard) operationOf(ctx context.Context, id string) *operation {
	op := s.operations[id]
	if op == nil || op.tenant != tenantOf(ctx) {
		return nil
	}
	return op
}

// EndOperation ends an operation: with a reason it has failed.
func (s *Shard) EndOperation(id, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	op := s.operations[id]
	if op == nil {
		return
	}
	op.State, op.FinishedAt = nstancev1.OperationState_OPERATION_STATE_COMPLETE, timestamppb.Now()
	op.Message = cmp.Or(reason, "done")
	if reason != "" {
		op.State, op.Reason = nstancev1.OperationState_OPERATION_STATE_FAILED, reason
	}
}
