package operations

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// ErrNotYours says that an operation cannot be taken or ended by the caller: another executor has it,
// it is not its turn, or it has finished. Nothing may be done for it.
var ErrNotYours = errors.New("the operation is not for this executor to claim or to end")

// steps are the states that may follow one another. The empty one is that of an operation that nobody
// has looked at. What no state follows is final.
var steps = map[hostsv1.OperationState][]hostsv1.OperationState{
	"":                          {hostsv1.OperationPending, hostsv1.OperationFailed},
	hostsv1.OperationPending:    {hostsv1.OperationInProgress, hostsv1.OperationFailed},
	hostsv1.OperationInProgress: {hostsv1.OperationComplete, hostsv1.OperationFailed},
}

// MayFollow reports whether an operation may go from one state to another, or stay.
func MayFollow(from, to hostsv1.OperationState) bool {
	return from == to || slices.Contains(steps[from], to)
}

// Finished reports whether a state is final.
func Finished(s hostsv1.OperationState) bool {
	return s == hostsv1.OperationComplete || s == hostsv1.OperationFailed
}

// Limits of what an executor may say.
const (
	MaxMessage = 1024
	MaxResults = 32
	MaxResult  = 4096
	maxKey     = 63
	maxReason  = 128
)

// Claim returns the status by which an executor takes an operation. The executor acts once a write of
// it has been acknowledged that would have been refused if the object had changed, and not otherwise.
func Claim(op *hostsv1.MachineOperation, executor string, now time.Time) (hostsv1.MachineOperationStatus, error) {
	switch {
	case op.Spec.MachineRef == nil:
		return op.Status, fmt.Errorf("claim MachineOperation %s: it is carried out by those of its machines: %w", op.Name, ErrNotYours)
	case op.Status.State != hostsv1.OperationPending:
		return op.Status, fmt.Errorf("claim MachineOperation %s: its state is %q: %w", op.Name, op.Status.State, ErrNotYours)
	case executor == "" || op.Labels[hostsv1.LabelExecutor] != executor:
		return op.Status, fmt.Errorf("claim MachineOperation %s: its label names executor %q: %w", op.Name, op.Labels[hostsv1.LabelExecutor], ErrNotYours)
	case !op.DeletionTimestamp.IsZero():
		return op.Status, fmt.Errorf("claim MachineOperation %s: it is being deleted: %w", op.Name, ErrNotYours)
	}
	next := *op.Status.DeepCopy()
	start, deadline := metav1.NewTime(now.Truncate(time.Second)), metav1.NewTime(now.Add(Timeout(op)).Truncate(time.Second))
	next.State, next.Executor, next.StartTime, next.Deadline = hostsv1.OperationInProgress, executor, &start, &deadline
	next.Attempts++
	next.Reason, next.Message = hostsv1.ReasonClaimed, ""
	return next, nil
}

// Outcome is how an operation ended.
type Outcome struct {
	Failed bool
	// Reason in one word; empty: Succeeded or ExecutorFailed.
	Reason  string
	Message string
	Results map[string]string
}

// Finish returns the status by which an executor ends an operation that it has taken. What is too long
// is cut, and what is too much is left out.
func Finish(op *hostsv1.MachineOperation, executor string, o Outcome, now time.Time) (hostsv1.MachineOperationStatus, error) {
	if op.Status.State != hostsv1.OperationInProgress || op.Status.Executor != executor {
		return op.Status, fmt.Errorf("end MachineOperation %s: it is %q by executor %q: %w", op.Name, op.Status.State, op.Status.Executor, ErrNotYours)
	}
	next := finish(op.Status, o, now)
	return next, nil
}

func finish(s hostsv1.MachineOperationStatus, o Outcome, now time.Time) hostsv1.MachineOperationStatus {
	next := *s.DeepCopy()
	end := metav1.NewTime(now.Truncate(time.Second))
	next.State, next.Reason = hostsv1.OperationComplete, hostsv1.ReasonSucceeded
	if o.Failed {
		next.State, next.Reason = hostsv1.OperationFailed, hostsv1.ReasonExecutorFailed
	}
	if o.Reason != "" {
		next.Reason = o.Reason[:min(len(o.Reason), maxReason)]
	}
	next.Message, next.CompletionTime = cut(o.Message, MaxMessage), &end
	for _, key := range sortedKeys(o.Results) {
		if len(key) > maxKey || len(next.Results) >= MaxResults {
			continue
		}
		if next.Results == nil {
			next.Results = map[string]hostsv1.ParameterValue{}
		}
		next.Results[key] = hostsv1.ParameterValue(cut(o.Results[key], MaxResult))
	}
	return next
}

// fail ends an operation for a reason of ours.
func fail(s hostsv1.MachineOperationStatus, now time.Time, reason, format string, args ...any) hostsv1.MachineOperationStatus {
	return finish(s, Outcome{Failed: true, Reason: reason, Message: fmt.Sprintf(format, args...)}, now)
}
