// Package holds puts the instances of host machines on hold at their shards, for as long as something is done to
// them that looks like a failure.
//
// Who needs a hold, and when it ends, others decide: package hosts/operations for operations, the
// controller of host machines for repaves. A hold is durable at the shard, ends by itself, and gives way to one
// for something that takes longer; all calls may be repeated.
package holds

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Shard are the calls to a shard. [shards.Shard] has them.
type Shard interface {
	SetHold(ctx context.Context, req *nstancev1.SetHoldRequest) (*nstancev1.Hold, error)
	ClearHold(ctx context.Context, req *nstancev1.ClearHoldRequest) error
	GetInstanceStatus(ctx context.Context, id string) (*nstancev1.InstanceStatus, error)
}

// Holds are those of all shards. It is safe for concurrent use.
type Holds struct {
	// Shard returns the calls to a shard; false: it is not connected.
	Shard func(name string) (Shard, bool)
	Now   func() time.Time
}

// Look says how the shard of a machine holds its instance now.
func (h *Holds) Look(ctx context.Context, m *hostsv1.HostMachine) (operations.Hold, error) {
	s, err := h.of(m)
	if err != nil {
		return operations.Hold{}, err
	}
	in, err := s.GetInstanceStatus(ctx, string(m.Spec.Instance.ID))
	if err != nil {
		return operations.Hold{}, refused(err)
	}
	return Of(in, h.Now()), nil
}

// Set puts the instance of a machine on hold, and returns until when. Until may be zero: as long as its
// shard allows.
func (h *Holds) Set(ctx context.Context, m *hostsv1.HostMachine, reason string, until time.Time) (time.Time, error) {
	s, err := h.of(m)
	if err != nil {
		return time.Time{}, err
	}
	req := &nstancev1.SetHoldRequest{InstanceId: string(m.Spec.Instance.ID), Reason: reason}
	if !until.IsZero() {
		req.Until = timestamppb.New(until)
	}
	hold, err := s.SetHold(ctx, req)
	if err != nil {
		return time.Time{}, refused(err)
	}
	return hold.GetUntil().AsTime(), nil
}

// Clear ends the hold of the instance of a machine, if it is for the reason.
func (h *Holds) Clear(ctx context.Context, m *hostsv1.HostMachine, reason string) error {
	s, err := h.of(m)
	if err != nil {
		return err
	}
	return refused(s.ClearHold(ctx, &nstancev1.ClearHoldRequest{InstanceId: string(m.Spec.Instance.ID), Reason: reason}))
}

func (h *Holds) of(m *hostsv1.HostMachine) (Shard, error) {
	if m.Spec.Instance == nil {
		return nil, fmt.Errorf("HostMachine %s stands for no instance", m.Name)
	}
	s, connected := h.Shard(string(m.Spec.Instance.Shard))
	if !connected {
		return nil, fmt.Errorf("shard %s is not connected", m.Spec.Instance.Shard)
	}
	return s, nil
}

// Of is the hold that is in force by what a shard says of an instance.
func Of(in *nstancev1.InstanceStatus, now time.Time) operations.Hold {
	var h operations.Hold
	if until := inventory.HeldUntil(in, now); !until.IsZero() {
		h.Reason, h.Until = in.GetHold().GetReason(), until
	}
	h.Off = h.Reason != "" && in.GetStatus() == inventory.StatusPoweredOff
	return h
}

// refused marks the answers of a shard that does not do as it is asked, and would not the next time.
func refused(err error) error {
	if shards.ReasonOf(err) == "OPERATION_RUNNING" {
		return err // it does so when the power operation that needs the hold is over
	}
	switch shards.ClassOf(err) {
	case shards.Precondition, shards.Invalid, shards.NotFound, shards.Unimplemented, shards.Denied:
		return fmt.Errorf("%w: %w", operations.ErrRefused, err)
	}
	return err
}
