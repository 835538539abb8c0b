package drain

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/status"
)

// manager owns the part of a machine's status that is about its drain.
var manager = status.FieldManager("drains")

// report writes on the machine how far its drain is. A machine that is gone needs none, and
// one that is paused gets none: its drain is written on its Node.
func (r *Reconciler) report(ctx context.Context, s *target, d Decision) error {
	if s.Machine == nil || s.Paused {
		return nil
	}
	now := own(s.Machine.Status)
	next := infrav1.NstanceMachineStatus{Drain: progress(d)}
	if c := condition(d, s.doubt.Why); c != nil {
		next.Conditions = status.Next(now.Conditions, []metav1.Condition{*c}, s.Machine.Generation, r.Now())
	}
	if equality.Semantic.DeepEqual(now, next) {
		return nil
	}
	object := &infrav1.NstanceMachine{ObjectMeta: s.Machine.ObjectMeta, Status: next}
	return client.IgnoreNotFound(status.Apply(ctx, r.Client, object, manager))
}

// own returns the part of a status that this controller keeps.
func own(status infrav1.NstanceMachineStatus) infrav1.NstanceMachineStatus {
	s := infrav1.NstanceMachineStatus{Drain: status.Drain.DeepCopy()}
	if c := meta.FindStatusCondition(status.Conditions, infrav1.ConditionDraining); c != nil {
		s.Conditions = []metav1.Condition{*c}
	}
	return s
}

func progress(d Decision) *infrav1.DrainStatus {
	if d.State.Phase == None {
		return nil
	}
	left := int32(d.Counts.Left) //nolint:gosec // Pods of one Node
	p := &infrav1.DrainStatus{Reason: d.State.Reason, RemainingPods: &left}
	if !d.State.StartedAt.IsZero() {
		at := metav1.NewTime(d.State.StartedAt).Rfc3339Copy()
		p.StartedAt = &at
	}
	if !d.State.Deadline.IsZero() {
		at := metav1.NewTime(d.State.Deadline).Rfc3339Copy()
		p.Deadline = &at
	}
	return p
}

// condition says how far a drain is, and why its Node is uncertain where it is.
func condition(d Decision, doubt string) *metav1.Condition {
	switch {
	case doubt != "" && !d.Over && d.Why != "":
		c := status.True(infrav1.ConditionDraining, infrav1.ReasonNodeUncertain, d.Why)
		return &c
	case d.State.Phase == None:
		return nil
	case d.State.Phase == infrav1.DrainDone:
		c := status.False(infrav1.ConditionDraining, infrav1.ReasonDrained, d.Why)
		return &c
	default:
		c := status.True(infrav1.ConditionDraining, infrav1.ReasonDraining, fmt.Sprintf(
			"%s: %s; pods: %d total, %d evicted, %d blocked by a budget, %d left", d.State.Phase, d.Why,
			d.Counts.Total, d.Counts.Evicted, d.Counts.Blocked, d.Counts.Left,
		))
		return &c
	}
}
