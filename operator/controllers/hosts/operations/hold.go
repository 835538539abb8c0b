package operations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
)

// Holds puts the instances of machines on hold at their shards. Each call may be repeated. The error is an
// [operations.ErrRefused] where a shard has answered that it does not.
type Holds interface {
	// Look says how a shard holds the instance of a machine now.
	Look(ctx context.Context, m *hostsv1.HostMachine) (operations.Hold, error)
	// Set puts it on hold, and returns until when; until may be zero: as long as the shard allows.
	Set(ctx context.Context, m *hostsv1.HostMachine, reason string, until time.Time) (time.Time, error)
	// Clear ends the hold, if it is for the reason.
	Clear(ctx context.Context, m *hostsv1.HostMachine, reason string) error
}

// Hold has the instances of operations that this process carries out put on hold, from now on. Until it is called
// none begins that needs that.
func (r *Reconciler) Hold(h Holds) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds = h
}

func (r *Reconciler) holder() Holds {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holds
}

// hold puts the instance of an operation that is about to be claimed here on hold. Where that cannot be, the
// decision is that it waits.
func (r *Reconciler) hold(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine, d operations.Decision) (operations.Decision, error) {
	need := operations.NeedsHold(op.Spec.OperationName)
	if need == "" || r.carrier(d.Executor) == nil || m == nil || m.Spec.Instance == nil {
		return d, nil
	}
	h := r.holder()
	if h == nil {
		return operations.NotHeld(op, d, "no shard is connected yet", r.opts.Now()), nil
	}
	is, err := h.Look(ctx, m)
	if err != nil {
		return operations.NotHeld(op, d, err.Error(), r.opts.Now()), nil
	}
	if meta.FindStatusCondition(d.Status.Conditions, hostsv1.ConditionOnHold) == nil {
		begun := op.DeepCopy()
		begun.Status = d.Status
		if err := r.write(ctx, op, operations.BeginHold(begun, is, r.opts.Now())); err != nil {
			return d, err
		}
		d.Status = *op.Status.DeepCopy()
	}
	until, err := h.Set(ctx, m, need, operations.HoldUntil(op, is, r.opts.Now()))
	if err != nil {
		return operations.NotHeld(op, d, err.Error(), r.opts.Now()), nil
	}
	if operations.Short(op, until, r.opts.Now()) {
		return operations.NotHeld(op, d, "the hold that there is ends at "+until.UTC().Format(time.RFC3339)+", which is before the deadline would be", r.opts.Now()), nil
	}
	r.opts.Log.InfoContext(ctx, "instance on hold", "operation", op.Name, "name", op.Spec.OperationName, "machine", m.Name, "until", until, "reason", need)
	return d, nil
}

// lasts has the instance of an operation that leaves its machine off stay on hold, and adds that to the
// status that says the end. A shard that refuses is believed: then the instance leaves anyway.
func (r *Reconciler) lasts(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine, next hostsv1.MachineOperationStatus) (hostsv1.MachineOperationStatus, error) {
	h := r.holder()
	if h == nil || m.Spec.Instance == nil {
		return next, nil
	}
	until, err := h.Set(ctx, m, operations.NeedsHold(op.Spec.OperationName), time.Time{})
	switch {
	case errors.Is(err, operations.ErrRefused):
		r.opts.Log.WarnContext(ctx, "instance that is off is not on hold", "operation", op.Name, "machine", m.Name, "error", err)
		return next, nil
	case err != nil:
		return next, fmt.Errorf("keep HostMachine %s on hold: %w", m.Name, err)
	}
	return operations.HoldLasts(op, next, until, r.opts.Now()), nil
}

// release ends the hold of the instance of an operation that has finished, if it is to end, and writes that
// down.
func (r *Reconciler) release(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) error {
	reason, ends := operations.EndsHold(op)
	if !ends {
		return nil
	}
	h := r.holder()
	if h == nil {
		return nil // the one who carries operations out comes with it
	}
	end := func(reason, message string) error {
		return client.IgnoreNotFound(r.write(ctx, op, operations.HoldEnded(op, reason, message, r.opts.Now())))
	}
	if m == nil || string(m.UID) != op.Status.MachineUID || m.Spec.Instance == nil {
		return end(hostsv1.ReasonHoldGone, "the machine is gone")
	}
	err := h.Clear(ctx, m, reason)
	switch {
	case errors.Is(err, operations.ErrRefused):
		return end(hostsv1.ReasonHoldGone, err.Error())
	case err != nil && op.Status.CompletionTime != nil && r.opts.Now().Sub(op.Status.CompletionTime.Time) > operations.PendingAtMost:
		return end(hostsv1.ReasonHoldGone, "it has ended by itself; the shard did not answer: "+err.Error())
	case err != nil:
		return fmt.Errorf("end the hold of HostMachine %s: %w", m.Name, err)
	}
	r.opts.Log.InfoContext(ctx, "hold of instance ended", "operation", op.Name, "name", op.Spec.OperationName, "machine", m.Name, "reason", "the operation has finished")
	return end(hostsv1.ReasonHoldCleared, "the hold ended with the operation")
}
