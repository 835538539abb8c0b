// Package power carries out the operations that switch machines off and on: powerOff, powerOn and powerCycle of
// host machines that stand for an instance. The shard of the instance does it, which asks the provider; this
// package starts an operation there, follows it, and says how it ended.
//
// An operation has the UID of its MachineOperation at the shard, where the same id is the same operation: to
// start it again starts nothing, so an operator that comes after another one goes on where that stopped, and
// a power cycle happens once. At its deadline it is cancelled: what was not sent is left, and what was begun goes
// on to its end, so that no machine stays off that was to be on.
//
// It leaves to others who may claim an operation, and that the instance is on hold meanwhile: the shard starts none
// without.
package power

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Shard are the calls to a shard. [shards.Shard] has them.
type Shard interface {
	StartOperation(ctx context.Context, req *nstancev1.StartOperationRequest) (*nstancev1.OperationStatus, error)
	GetOperation(ctx context.Context, id string) (*nstancev1.OperationStatus, error)
	CancelOperation(ctx context.Context, id string) (*nstancev1.OperationStatus, error)
}

// Switch carries out operations on power. All fields are required; it is safe for concurrent use.
type Switch struct {
	// Shard returns the calls to a shard; false: it is not connected.
	Shard func(name string) (Shard, bool)
	Now   func() time.Time
}

// Offers are the operations that are carried out on a machine: those on power, if it stands for an instance.
func (s *Switch) Offers(m *hostsv1.HostMachine) []string {
	if m.Spec.Instance == nil {
		return nil
	}
	return []string{hostsv1.OperationPowerCycle, hostsv1.OperationPowerOff, hostsv1.OperationPowerOn}
}

// Carry starts an operation or looks how it is; nil: it is not over. An error is worth another try.
func (s *Switch) Carry(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (*operations.Outcome, error) {
	if m.Spec.Instance == nil || op.Status.Deadline == nil {
		return nil, fmt.Errorf("HostMachine %s stands for no instance, or the operation is not claimed", m.Name)
	}
	shard, connected := s.Shard(string(m.Spec.Instance.Shard))
	if !connected {
		return nil, fmt.Errorf("shard %s is not connected", m.Spec.Instance.Shard)
	}
	said, err := shard.GetOperation(ctx, string(op.UID))
	late := !s.Now().Before(op.Status.Deadline.Time)
	switch {
	case err != nil && shards.ClassOf(err) == shards.NotFound && late:
		return failed(hostsv1.ReasonTimeout, "the shard had not begun it by the deadline"), nil
	case err != nil && shards.ClassOf(err) == shards.NotFound:
		said, err = shard.StartOperation(ctx, request(op, m))
	case err == nil && late && !over(said):
		said, err = shard.CancelOperation(ctx, string(op.UID))
	}
	if err != nil {
		return refused(err)
	}
	return outcome(said), nil
}

// Known reports whether the shard has taken an operation.
func (s *Switch) Known(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (bool, error) {
	if m.Spec.Instance == nil {
		return false, fmt.Errorf("HostMachine %s stands for no instance", m.Name)
	}
	shard, connected := s.Shard(string(m.Spec.Instance.Shard))
	if !connected {
		return false, fmt.Errorf("shard %s is not connected", m.Spec.Instance.Shard)
	}
	if _, err := shard.GetOperation(ctx, string(op.UID)); err != nil {
		if shards.ClassOf(err) == shards.NotFound {
			return false, nil
		}
		return false, err
	}
	return true, nil
}

func request(op *hostsv1.MachineOperation, m *hostsv1.HostMachine) *nstancev1.StartOperationRequest {
	r := &nstancev1.StartOperationRequest{
		Id: string(op.UID), InstanceId: string(m.Spec.Instance.ID), Name: operations.Name(op.Spec.OperationName),
		Deadline: timestamppb.New(op.Status.Deadline.Time),
	}
	for key, value := range op.Spec.Parameters {
		if key == operations.ParameterForce {
			continue // that it did not wait is all that it says
		}
		if r.Parameters == nil {
			r.Parameters = map[string]string{}
		}
		r.Parameters[key] = string(value)
	}
	return r
}

// reasons are those of the shard's refusals after which another try is of no use, and what an operation fails
// with then.
var reasons = map[string]string{
	"INSTANCE_LEAVING":   ReasonInstanceLeaving,
	"NOT_FOUND":          ReasonInstanceLeaving,
	"NO_NODE_MACHINE":    ReasonUnsupported,
	"NO_POWER":           ReasonUnsupported,
	"INVALID_PARAMETERS": hostsv1.ReasonInvalidParameters,
	"INVALID_OPERATION":  hostsv1.ReasonInvalidParameters,
	"OPERATION_EXISTS":   hostsv1.ReasonExecutorFailed,
}

// Reasons of operations that failed. Others are those of the shard.
const (
	// ReasonUnsupported: the machine or its provider cannot be switched so.
	ReasonUnsupported = "Unsupported"
	// ReasonInstanceLeaving: the instance is to be deleted, or is gone.
	ReasonInstanceLeaving = "InstanceLeaving"
)

// refused is what follows from a call that failed.
func refused(err error) (*operations.Outcome, error) {
	if reason := reasons[shards.ReasonOf(err)]; reason != "" && shards.ClassOf(err).Answered() {
		return failed(reason, err.Error()), nil
	}
	if shards.ClassOf(err) == shards.Unimplemented {
		return failed(ReasonUnsupported, "the servers of the shard are of a release that switches no machine off or on"), nil
	}
	return nil, err
}

func failed(reason, message string) *operations.Outcome {
	return &operations.Outcome{Failed: true, Reason: reason, Message: message}
}

func over(said *nstancev1.OperationStatus) bool {
	switch said.GetState() {
	case nstancev1.OperationState_OPERATION_STATE_COMPLETE, nstancev1.OperationState_OPERATION_STATE_FAILED:
		return true
	}
	return false
}

// outcome is how an operation has ended; nil: it has not. Its results are the marks: what was sent and seen,
// when, and how often if more than once.
func outcome(said *nstancev1.OperationStatus) *operations.Outcome {
	if !over(said) {
		return nil
	}
	o := &operations.Outcome{
		Failed: said.GetState() == nstancev1.OperationState_OPERATION_STATE_FAILED, Reason: said.GetReason(), Message: said.GetMessage(),
		Results: map[string]string{},
	}
	maps.Copy(o.Results, said.GetResults())
	for _, mark := range said.GetMarks() {
		text := mark.GetAt().AsTime().UTC().Format(time.RFC3339)
		if n := mark.GetTimes(); n > 1 {
			text += ", " + strconv.Itoa(int(n)) + " times"
		}
		o.Results[mark.GetMark()] = text
	}
	return o
}
