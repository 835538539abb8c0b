package operations

import (
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Hold is what a shard says of the hold of an instance.
type Hold struct {
	// Reason of the hold that is in force, in the words of the servers; empty: there is none.
	Reason string
	Until  time.Time
	// Off: the instance was switched off under it.
	Off bool
}

// ErrRefused says that a shard has answered that it does not do what it is asked for a hold.
var ErrRefused = errors.New("the shard refuses")

// holds are the reasons, the weakest first: a hold gives way to one for a later reason, and not to one for
// an earlier.
var holds = []string{hostsv1.HoldReboot, hostsv1.HoldRepave, hostsv1.HoldPower}

// NeedsHold is what the instance of a machine has to be on hold for while an operation of a name runs (M84);
// empty: for nothing.
func NeedsHold(name string) string {
	switch Name(name) {
	case hostsv1.OperationReboot:
		return hostsv1.HoldReboot
	case hostsv1.OperationShutdown, hostsv1.OperationPowerOff, hostsv1.OperationPowerOn, hostsv1.OperationPowerCycle:
		return hostsv1.HoldPower
	}
	return ""
}

// leavesOff reports whether the machine is off once an operation of a name is complete.
func leavesOff(name string) bool {
	return Name(name) == hostsv1.OperationShutdown || Name(name) == hostsv1.OperationPowerOff
}

// LongestReboot is how long a reboot may take, the drain before it included: the servers keep an instance on hold for a
// quarter of an hour for one, and its end has to be seen in that.
const LongestReboot = 15*time.Minute - LostAfter

// Short reports whether a hold that is granted until then ends before an operation that is claimed now may have to.
func Short(op *hostsv1.MachineOperation, until, now time.Time) bool {
	return until.Before(now.Add(Timeout(op)).Truncate(time.Second))
}

// kept is why an operation cannot begin on a machine as long as its instance is on hold, or off; empty: it
// can.
func kept(name string, m Machine) (reason, message string) {
	need := NeedsHold(name)
	if need != "" && slices.Index(holds, m.Hold.Reason) > slices.Index(holds, need) {
		return hostsv1.ReasonOnHold, "the instance is on hold (" + m.Hold.Reason + ") until " + m.Hold.Until.UTC().Format(time.RFC3339)
	}
	if p, known := Known(name); m.Hold.Off && known && p.Executor == hostsv1.ExecutorPaver {
		return hostsv1.ReasonPoweredOff, "the instance is switched off"
	}
	return "", ""
}

// BeginHold returns the status of an operation that says what becomes of the hold of its instance when it
// ends. It is written before the hold is asked for, so that whoever comes after a crash knows whose it is: h is
// what the shard says at the time. A status that says so already stays.
func BeginHold(op *hostsv1.MachineOperation, h Hold, now time.Time) hostsv1.MachineOperationStatus {
	next := *op.Status.DeepCopy()
	need := NeedsHold(op.Spec.OperationName)
	if need == "" || meta.FindStatusCondition(next.Conditions, hostsv1.ConditionOnHold) != nil {
		return next
	}
	reason, message := hostsv1.ReasonHoldOwn, "the instance is on hold ("+need+") for this operation; that ends with it"
	switch {
	case h.Reason != need:
	case h.Off, Name(op.Spec.OperationName) == hostsv1.OperationPowerOn:
		reason, message = hostsv1.ReasonHoldTakenOver, "the instance was on hold ("+need+") already; that ends when this operation is complete"
	default:
		reason, message = hostsv1.ReasonHoldFound, "the instance was on hold ("+need+") already, and stays so"
	}
	next.Conditions = onHold(op, next.Conditions, now, metav1.ConditionTrue, reason, message)
	return next
}

// HoldUntil is until when the hold of an operation that begins now is asked for; h is the one that there is.
func HoldUntil(op *hostsv1.MachineOperation, h Hold, now time.Time) time.Time {
	until := now.Add(Timeout(op) + LostAfter)
	if h.Reason == NeedsHold(op.Spec.OperationName) && h.Until.After(until) {
		return h.Until // a hold is not to end sooner because of an operation
	}
	return until
}

// KeepsOff reports whether an operation that ends so leaves its machine off on purpose: then the hold is to last
// as long as the shard allows (M85), before anybody hears of the end.
func KeepsOff(op *hostsv1.MachineOperation, o Outcome) bool {
	return !o.Failed && leavesOff(op.Spec.OperationName) && meta.FindStatusCondition(op.Status.Conditions, hostsv1.ConditionOnHold) != nil
}

// EndsHold reports whether the hold of the instance is to be ended because an operation has finished, for which
// reason. An operation that did not ask for one, or that is not the last to need it, ends none.
func EndsHold(op *hostsv1.MachineOperation) (reason string, ends bool) {
	c := meta.FindStatusCondition(op.Status.Conditions, hostsv1.ConditionOnHold)
	if c == nil || !Finished(op.Status.State) || c.Status != metav1.ConditionTrue {
		return "", false
	}
	complete := op.Status.State == hostsv1.OperationComplete
	if complete && leavesOff(op.Spec.OperationName) {
		return "", false
	}
	need := NeedsHold(op.Spec.OperationName)
	return need, c.Reason == hostsv1.ReasonHoldOwn || c.Reason == hostsv1.ReasonHoldTakenOver && complete
}

// HoldEnded returns the status that says that the hold was ended, or why it was not.
func HoldEnded(op *hostsv1.MachineOperation, reason, message string, now time.Time) hostsv1.MachineOperationStatus {
	next := *op.Status.DeepCopy()
	next.Conditions = onHold(op, next.Conditions, now, metav1.ConditionFalse, reason, message)
	return next
}

// HoldLasts returns a status that says that the hold stays in force after the operation.
func HoldLasts(op *hostsv1.MachineOperation, s hostsv1.MachineOperationStatus, until, now time.Time) hostsv1.MachineOperationStatus {
	next := *s.DeepCopy()
	next.Conditions = onHold(op, next.Conditions, now, metav1.ConditionTrue, hostsv1.ReasonHoldKept,
		"the machine is off on purpose: the instance stays on hold until "+until.UTC().Format(time.RFC3339)+", and is replaced when it is off then")
	return next
}

// NotHeld returns the decision about an operation whose instance cannot be put on hold. It waits, and is
// tried again: what the shard says may pass.
func NotHeld(op *hostsv1.MachineOperation, d Decision, why string, now time.Time) Decision {
	d.Executor, d.After = "", holdAgain
	return claimed(op, d, now, metav1.ConditionFalse, hostsv1.ReasonOnHold, "the instance cannot be put on hold: %s", why)
}

// holdAgain is when an instance is asked to be put on hold again.
const holdAgain = 15 * time.Second

func onHold(op *hostsv1.MachineOperation, all []metav1.Condition, now time.Time, is metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return with(op, all, now, metav1.Condition{Type: hostsv1.ConditionOnHold, Status: is, Reason: reason, Message: cut(message, MaxMessage)})
}
