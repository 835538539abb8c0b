package operations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
	"nstance.dev/operator/hosts/selection"
)

// fanOut carries out what comes next for an operation on the machines of a selector.
func (r *Reconciler) fanOut(ctx context.Context, op *hostsv1.MachineOperation) (ctrl.Result, error) {
	if op.Status.Children == nil && !operations.Finished(op.Status.State) {
		// A cache may not show yet that all children were made, and other machines may be selected by now.
		is := &hostsv1.MachineOperation{}
		if err := r.opts.Live.Get(ctx, client.ObjectKeyFromObject(op), is); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("read MachineOperation %s: %w", op.Name, err)
		}
		if is.UID != op.UID {
			return ctrl.Result{}, nil // it is gone, which is seen in a moment
		}
		op = is
	}
	in := operations.FanOut{Parent: op, Running: r.ledger.children(string(op.UID))}
	if err := r.children(ctx, &in, op.Status.Children == nil && !operations.Finished(op.Status.State)); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.selected(ctx, &in); err != nil {
		return ctrl.Result{}, err
	}
	d := operations.DecideFanOut(in, r.opts.Now())
	if d.LookAgain {
		if err := r.children(ctx, &in, true); err != nil {
			return ctrl.Result{}, err
		}
		d = operations.DecideFanOut(in, r.opts.Now())
	}
	if d.Delete {
		return ctrl.Result{}, r.remove(ctx, op)
	}
	if err := r.multiply(ctx, op, d); err != nil {
		if !errors.Is(err, errForeign) {
			return ctrl.Result{}, err
		}
		d.Status = operations.Refuse(op, hostsv1.ReasonNameConflict, err.Error(), r.opts.Now())
	}
	for _, name := range d.Wake {
		r.wake(name)
	}
	if wait := r.countLater(op, d.Status); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err := r.write(ctx, op, d.Status); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: d.After}, nil
}

// countLater returns how long a status waits that has nothing new but counts: each of many children that finishes
// would have it written. 0: not at all.
func (r *Reconciler) countLater(op *hostsv1.MachineOperation, next hostsv1.MachineOperationStatus) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if operations.Finished(next.State) {
		delete(r.counted, op.Name)
		return 0
	}
	if equality.Semantic.DeepEqual(op.Status, next) {
		return 0
	}
	now, was := r.opts.Now(), op.Status
	was.Children = next.Children
	if wait := r.counted[op.Name].Add(countEvery).Sub(now); op.Status.Children != nil && equality.Semantic.DeepEqual(was, next) && wait > 0 {
		return wait
	}
	r.counted[op.Name] = now
	return 0
}

// children reads the children of an operation, from the API server if it has to be certain.
func (r *Reconciler) children(ctx context.Context, in *operations.FanOut, certain bool) error {
	var list hostsv1.MachineOperationList
	var err error
	if certain {
		err = r.opts.Live.List(ctx, &list, client.MatchingLabels{hostsv1.LabelParentUID: string(in.Parent.UID)})
	} else {
		err = r.opts.Client.List(ctx, &list, client.MatchingFields{IndexParent: string(in.Parent.UID)}, client.UnsafeDisableDeepCopy)
	}
	if err != nil {
		return fmt.Errorf("list operations of the selector of MachineOperation %s: %w", in.Parent.Name, err)
	}
	in.Certain, in.Children = certain, nil
	for i := range list.Items {
		if operations.IsChildOf(&list.Items[i], in.Parent) {
			in.Children = append(in.Children, &list.Items[i])
		}
	}
	return nil
}

// selected finds the machines that the selector selects, where that still counts.
func (r *Reconciler) selected(ctx context.Context, in *operations.FanOut) error {
	if in.Parent.Status.Children != nil || operations.Finished(in.Parent.Status.State) {
		return nil
	}
	s, invalid := selection.Parse(in.Parent.Spec.MachineSelector)
	if in.Invalid = invalid; invalid != nil {
		return nil //nolint:nilerr // it is the decision's to say
	}
	var all hostsv1.HostMachineList
	if err := r.opts.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list HostMachines: %w", err)
	}
	for i := range all.Items {
		if m := &all.Items[i]; m.DeletionTimestamp.IsZero() && s.Matches(m) {
			in.Selected = append(in.Selected, m)
		}
	}
	return nil
}

// multiply makes the children of an operation, and removes those that are none any more. None of them has
// begun.
func (r *Reconciler) multiply(ctx context.Context, op *hostsv1.MachineOperation, d operations.FanOutDecision) error {
	for _, child := range d.Remove {
		if err := r.opts.Client.Delete(ctx, child, client.Preconditions{UID: &child.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete MachineOperation %s: %w", child.Name, err)
		}
	}
	for _, child := range d.Create {
		err := r.opts.Client.Create(ctx, child, manager)
		if err == nil {
			continue
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create MachineOperation %s: %w", child.Name, err)
		}
		is := &hostsv1.MachineOperation{}
		if err := r.opts.Live.Get(ctx, client.ObjectKeyFromObject(child), is); err != nil {
			return fmt.Errorf("read MachineOperation %s: %w", child.Name, err)
		}
		if !operations.IsChildOf(is, op) || is.Spec.MachineRef == nil || *is.Spec.MachineRef != *child.Spec.MachineRef {
			return fmt.Errorf("MachineOperation %s: %w", child.Name, errForeign)
		}
	}
	if len(d.Create) > 0 {
		r.opts.Log.InfoContext(ctx, "operations created for machines", "operation", op.Name, "name", op.Spec.OperationName,
			"created", len(d.Create), "machines", d.Status.Children.Total, "reason", "its selector selects them")
	}
	return nil
}
