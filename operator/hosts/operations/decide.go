package operations

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// How long things are waited for.
const (
	// NoExecutorAfter is how long a predefined operation waits for somebody to offer it.
	NoExecutorAfter = 10 * time.Minute
	// OfferedFor is how long an executor may leave an operation unclaimed that it may claim, where others wait.
	OfferedFor = 10 * time.Minute
	// PendingAtMost is how long an operation waits for its turn, or for a pause to end.
	PendingAtMost = 24 * time.Hour
	// LostAfter is how long after its deadline an executor is believed to be there.
	LostAfter = time.Minute
)

// Machine is what is to be known of the machine of an operation.
type Machine struct {
	Found      bool
	Name, UID  string
	Generation int64
	Paused     bool
	// Repaving is the stage of a repave in which nothing else may happen; empty: there is none.
	Repaving string
	// Hold of its instance.
	Hold Hold
	// Executors offer operations on it.
	Executors []hostsv1.Executor
}

// Parent is what is to be known of the operation that another one was made for.
type Parent struct {
	// Begun: all of its children are made.
	Begun bool
	// Finished: it was ended before its children had begun.
	Finished bool
	Limit    int // of its children that run at once; 0: none
}

// Input is what a decision follows from.
type Input struct {
	Operation *hostsv1.MachineOperation
	Machine   Machine
	Parent    *Parent // nil: it was asked for by itself
	// Others are the operations of the machine, this one included.
	Others []*hostsv1.MachineOperation
	// Busy is the name of another operation of the machine that is known to run; empty: none is.
	Busy string
	// Full: as many children of the parent run as may.
	Full bool
}

// Decision is what an operation is to say.
type Decision struct {
	// Delete the object: its time to live is over.
	Delete bool
	Status hostsv1.MachineOperationStatus
	// Executor that may take it, or has; empty: nobody may.
	Executor string
	// After is when to decide again at the latest; 0: when something changes.
	After time.Duration
}

// Decide returns what one operation on one machine is to say. It has no selector.
func Decide(in Input, now time.Time) Decision {
	op := in.Operation
	d := Decision{Status: *op.Status.DeepCopy(), Executor: op.Labels[hostsv1.LabelExecutor]}
	switch {
	case Finished(op.Status.State):
		return ended(op, d, now)
	case !op.DeletionTimestamp.IsZero():
		return d
	case in.Machine.Found && madeForAnother(op, in.Machine.UID):
		return failed(op, d, now, hostsv1.ReasonMachineReplaced, "HostMachine %s is another one of the same name by now", in.Machine.Name)
	case op.Status.State == hostsv1.OperationInProgress:
		return inProgress(op, d, now)
	}
	if in.Machine.Found && op.Status.MachineUID == "" {
		d.Status.MachineUID, d.Status.ObservedMachineGeneration = in.Machine.UID, in.Machine.Generation
	}
	d.Status.State = hostsv1.OperationPending
	return pending(in, d, now)
}

// pending decides about an operation that nobody has taken.
func pending(in Input, d Decision, now time.Time) Decision {
	op := in.Operation
	if err := CheckParameters(op, string(op.Spec.MachineRef.Name)); err != nil {
		return failed(op, d, now, hostsv1.ReasonInvalidParameters, "%s", err)
	}
	if p := in.Parent; p != nil && p.Finished {
		return failed(op, d, now, hostsv1.ReasonCancelled, "the operation that it was made for has ended")
	}
	executor := Executor(op.Spec.OperationName, in.Machine.Executors)
	if executor == "" {
		return nobody(in, d, now)
	}
	left := op.CreationTimestamp.Add(PendingAtMost).Sub(now)
	if left <= 0 {
		return failed(op, d, now, hostsv1.ReasonExpired, "no executor has claimed it for %s", PendingAtMost)
	}
	wait := func(reason, format string, args ...any) Decision {
		d.Executor, d.After = "", left
		return claimed(op, d, now, metav1.ConditionFalse, reason, format, args...)
	}
	forced := Forced(op)
	held, why := kept(op.Spec.OperationName, in.Machine)
	switch p := in.Parent; {
	case in.Machine.Paused && !forced:
		return wait(hostsv1.ReasonPaused, "HostMachine %s is paused", in.Machine.Name)
	case in.Machine.Repaving != "" && !forced:
		return wait(hostsv1.ReasonRepaving, "HostMachine %s is being repaved: %s", in.Machine.Name, in.Machine.Repaving)
	case held != "":
		d := wait(held, "%s", why)
		if until := in.Machine.Hold.Until.Sub(now); until > 0 {
			d.After = min(d.After, until)
		}
		return d
	case p != nil && !p.Begun:
		return wait(hostsv1.ReasonNotBegun, "not all operations of the same selector exist yet")
	}
	first := before(in)
	switch {
	case first != "" && op.Status.Reason == hostsv1.ReasonNotClaimed:
		return wait(op.Status.Reason, "%s", op.Status.Message) // since when it has missed its turn counts
	case first != "":
		return wait(hostsv1.ReasonQueued, "MachineOperation %s comes first", first)
	case in.Full:
		return wait(hostsv1.ReasonLimited, "%d operations of the same selector are under way, which is its maxConcurrent", in.Parent.Limit)
	}
	if offered := offeredSince(op); !offered.IsZero() {
		switch lapses := offered.Add(OfferedFor).Sub(now); {
		case lapses > 0:
			left = min(left, lapses)
		case Turn(without(in.Others, op), in.Machine) != nil:
			return wait(hostsv1.ReasonNotClaimed, "executor %s has not claimed it for %s, and others wait; it is offered again after them", executor, OfferedFor)
		}
	}
	d.Executor, d.After = executor, left
	return claimed(op, d, now, metav1.ConditionFalse, hostsv1.ReasonOffered, "executor %s may claim it", executor)
}

// before is the operation of the machine that comes first; empty: this one does.
func before(in Input) string {
	if in.Busy != "" {
		return in.Busy
	}
	if next := Turn(in.Others, in.Machine); next != nil && next.UID != in.Operation.UID {
		return next.Name
	}
	return ""
}

// offeredSince is since when the executor of an operation may claim it; zero: it may not.
func offeredSince(op *hostsv1.MachineOperation) time.Time {
	c := meta.FindStatusCondition(op.Status.Conditions, hostsv1.ConditionClaimed)
	if c == nil || c.Reason != hostsv1.ReasonOffered || op.Labels[hostsv1.LabelExecutor] == "" {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

// without are all operations but one.
func without(all []*hostsv1.MachineOperation, but *hostsv1.MachineOperation) []*hostsv1.MachineOperation {
	return slices.DeleteFunc(slices.Clone(all), func(op *hostsv1.MachineOperation) bool { return op.UID == but.UID })
}

// nobody decides about an operation that nobody offers on its machine.
func nobody(in Input, d Decision, now time.Time) Decision {
	op := in.Operation
	d.Executor = ""
	_, known := Known(op.Spec.OperationName)
	switch {
	case !in.Machine.Found:
		d = claimed(op, d, now, metav1.ConditionFalse, hostsv1.ReasonNoExecutor, "HostMachine %s does not exist", op.Spec.MachineRef.Name)
	case known:
		d = claimed(op, d, now, metav1.ConditionFalse, hostsv1.ReasonNoExecutor, "no executor offers %s on HostMachine %s", op.Spec.OperationName, in.Machine.Name)
	default:
		d = claimed(op, d, now, metav1.ConditionFalse, hostsv1.ReasonNoExecutor,
			"no executor offers %s on HostMachine %s, which is a custom name", op.Spec.OperationName, in.Machine.Name)
	}
	since, reason := op.CreationTimestamp.Add(Timeout(op)), hostsv1.ReasonExpired
	if known {
		waits := meta.FindStatusCondition(d.Status.Conditions, hostsv1.ConditionClaimed)
		since, reason = waits.LastTransitionTime.Add(NoExecutorAfter), hostsv1.ReasonNoExecutor
	}
	if d.After = since.Sub(now); d.After <= 0 {
		return failed(op, d, now, reason, "%s", meta.FindStatusCondition(d.Status.Conditions, hostsv1.ConditionClaimed).Message)
	}
	return d
}

// inProgress decides about an operation that an executor has.
func inProgress(op *hostsv1.MachineOperation, d Decision, now time.Time) Decision {
	s := &d.Status
	if s.Executor == "" { // an executor of others may leave out what follows from the rest
		s.Executor = op.Labels[hostsv1.LabelExecutor]
	}
	if s.Reason == hostsv1.ReasonOffered {
		s.Reason, s.Message = hostsv1.ReasonClaimed, ""
	}
	if s.StartTime == nil {
		start := metav1.NewTime(now.Truncate(time.Second))
		s.StartTime = &start
	}
	if longest := metav1.NewTime(s.StartTime.Add(Timeout(op))); s.Deadline == nil || s.Deadline.After(longest.Time) {
		s.Deadline = &longest
	}
	if d.After = s.Deadline.Add(LostAfter).Sub(now); d.After <= 0 {
		return failed(op, d, now, hostsv1.ReasonExecutorLost, "executor %s has said nothing until %s after the deadline", s.Executor, LostAfter)
	}
	return claimed(op, d, now, metav1.ConditionTrue, hostsv1.ReasonClaimed, "executor %s has claimed it", s.Executor)
}

// ended decides about an operation that has finished.
func ended(op *hostsv1.MachineOperation, d Decision, now time.Time) Decision {
	if d.Status.CompletionTime == nil { // an executor of others may leave it out
		end := metav1.NewTime(now.Truncate(time.Second))
		d.Status.CompletionTime = &end
	}
	d = finished(op, d, now)
	ttl := op.Spec.TTLSecondsAfterFinished
	if ttl == nil {
		return d
	}
	d.After = d.Status.CompletionTime.Add(time.Duration(*ttl) * time.Second).Sub(now)
	d.Delete = d.After <= 0
	return d
}

// failed ends an operation.
func failed(op *hostsv1.MachineOperation, d Decision, now time.Time, reason, format string, args ...any) Decision {
	d.Status = fail(d.Status, now, reason, format, args...)
	if op.Status.State != hostsv1.OperationInProgress {
		d.Executor = ""
	}
	d.After = 0
	return finished(op, d, now)
}

func finished(op *hostsv1.MachineOperation, d Decision, now time.Time) Decision {
	reason := d.Status.Reason
	if !conditionReason.MatchString(reason) {
		reason = string(d.Status.State) // a reason of others need not be one that a condition may have
	}
	d.Status.Conditions = with(op, d.Status.Conditions, now, metav1.Condition{
		Type: hostsv1.ConditionFinished, Status: metav1.ConditionTrue, Reason: reason, Message: cut(d.Status.Message, MaxMessage),
	})
	return d
}

// claimed says whether somebody has taken the operation, or what it waits for.
func claimed(op *hostsv1.MachineOperation, d Decision, now time.Time, status metav1.ConditionStatus, reason, format string, args ...any) Decision {
	message := fmt.Sprintf(format, args...)
	d.Status.Conditions = with(op, d.Status.Conditions, now, metav1.Condition{Type: hostsv1.ConditionClaimed, Status: status, Reason: reason, Message: cut(message, MaxMessage)})
	if status == metav1.ConditionFalse {
		d.Status.Reason, d.Status.Message = reason, cut(message, MaxMessage)
	}
	return d
}

// with sets a condition. Its time is when it began to be so for that reason: how long an operation
// waits for the same thing is to be seen, and counts.
func with(op *hostsv1.MachineOperation, all []metav1.Condition, now time.Time, c metav1.Condition) []metav1.Condition {
	c.ObservedGeneration, c.LastTransitionTime = op.Generation, metav1.NewTime(now.Truncate(time.Second))
	next := make([]metav1.Condition, 0, len(all)+1)
	for _, was := range all {
		if was.Type != c.Type {
			next = append(next, was)
			continue
		}
		if was.Status == c.Status && was.Reason == c.Reason {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
	return append(next, c)
}

// Refuse returns the status of an operation that cannot be begun, for a reason of the caller's.
func Refuse(op *hostsv1.MachineOperation, reason, message string, now time.Time) hostsv1.MachineOperationStatus {
	return failed(op, Decision{Status: *op.Status.DeepCopy()}, now, reason, "%s", message).Status
}
