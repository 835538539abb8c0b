package operations

import (
	"context"
	"errors"
	"fmt"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
	"nstance.dev/operator/status"
)

// Carrier carries out operations within this process. It is asked again until there is an outcome or the
// deadline has passed, also by a process that comes later: to do so twice must do no harm.
type Carrier interface {
	// Offers are the names of the operations that it carries out on a machine.
	Offers(m *hostsv1.HostMachine) []string
	// Carry makes one step; nil: the operation is not done yet. An error is worth another try.
	Carry(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (*operations.Outcome, error)
}

// Carry has an executor's operations carried out by a carrier, from now on.
func (r *Reconciler) Carry(executor string, c Carrier) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.carriers[executor] = c
}

func (r *Reconciler) carrier(executor string) Carrier {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.carriers[executor]
}

// offered adds to those who offer operations on a machine the ones of this process. Their names are nobody else's.
func (r *Reconciler) offered(m *hostsv1.HostMachine) []hostsv1.Executor {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.carriers) == 0 {
		return m.Status.Executors
	}
	all := slices.Clone(m.Status.Executors)
	all = slices.DeleteFunc(all, func(e hostsv1.Executor) bool { return r.carriers[e.Name] != nil })
	for name, c := range r.carriers {
		all = append(all, hostsv1.Executor{Name: name, Operations: c.Offers(m)})
	}
	return all
}

// claim takes an operation that this process carries out itself.
func (r *Reconciler) claim(ctx context.Context, op *hostsv1.MachineOperation, executor string) error {
	if r.carrier(executor) == nil || op.Status.State != hostsv1.OperationPending {
		return nil
	}
	next, err := operations.Claim(op, executor, r.opts.Now())
	if errors.Is(err, operations.ErrNotYours) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.write(ctx, op, next)
}

// carry makes a step of an operation that this process has taken, and reports whether that has ended it.
func (r *Reconciler) carry(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (ended bool, err error) {
	c := r.carrier(op.Status.Executor)
	if c == nil || op.Status.State != hostsv1.OperationInProgress {
		return false, nil
	}
	outcome, failed := c.Carry(ctx, op, m)
	if outcome == nil && op.Status.Deadline != nil && !r.opts.Now().Before(op.Status.Deadline.Add(stopWithin)) {
		outcome = &operations.Outcome{Failed: true, Reason: hostsv1.ReasonTimeout, Message: "it was not complete by its deadline"}
		if failed != nil {
			outcome.Message += ": " + failed.Error()
		}
	}
	if outcome == nil {
		if failed != nil {
			return false, fmt.Errorf("%s on HostMachine %s: %w", op.Spec.OperationName, m.Name, failed)
		}
		return false, nil
	}
	next, err := operations.Finish(op, op.Status.Executor, *outcome, r.opts.Now())
	if err == nil && operations.KeepsOff(op, *outcome) {
		next, err = r.lasts(ctx, op, m, next)
	}
	if err != nil {
		return false, err
	}
	return true, r.write(ctx, op, next)
}

// carried makes a step of an operation of this process, if it is one; done: there is nothing else to do for now.
func (r *Reconciler) carried(ctx context.Context, op *hostsv1.MachineOperation) (done bool, result ctrl.Result, err error) {
	if op.Status.State != hostsv1.OperationInProgress || r.carrier(op.Status.Executor) == nil {
		return false, result, nil
	}
	m := &hostsv1.HostMachine{}
	if err := r.opts.Client.Get(ctx, client.ObjectKey{Name: string(op.Spec.MachineRef.Name)}, m); err != nil {
		return false, result, client.IgnoreNotFound(err) // its deadline ends it
	}
	if string(m.UID) != op.Status.MachineUID {
		return false, result, nil
	}
	ended, err := r.carry(ctx, op, m)
	if err != nil || ended {
		return true, result, err
	}
	return false, status.Deferred(carryAgain, 0), nil
}
