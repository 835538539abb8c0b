package machine

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/backoff"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
)

// Reasons of events that are more than an event.
const (
	reasonWaits  = "DeletionWaits"
	reasonLeaked = "InstanceLeaked"
)

// remove is for a machine that is being deleted: its instance goes first.
func (d *decision) remove() {
	m := d.o.Machine
	switch {
	case !controllerutil.ContainsFinalizer(m, infrav1.FinalizerMachine):
	case m.Spec.InstanceID == "" || meta.IsStatusConditionTrue(m.Status.Conditions, infrav1.ConditionServerDeleted):
		d.do(RemoveFinalizer{})
	case d.gone():
		d.Status.InstanceState, d.Status.Ready = infrav1.InstanceTerminated, false
		d.do(PublishEvent{Reason: "InstanceDeleted", Message: "instance " + m.Spec.InstanceID + " is gone"}, RemoveFinalizer{})
	case d.neverThere():
		d.do(RemoveFinalizer{})
	case m.Annotations[infrav1.AnnotationForceRemove] == "true":
		d.do(PublishEvent{Reason: reasonLeaked, Warning: true, Message: fmt.Sprintf(
			"removed without its server, as %s says; instance %s on shard %s may go on and cost money", infrav1.AnnotationForceRemove, m.Spec.InstanceID, m.Spec.Shard,
		)}, RemoveFinalizer{})
	case d.o.Orphaned:
		d.do(RemoveFinalizer{})
	case !d.reachable():
		d.waitForShard()
	case d.toDrain():
		d.waitForDrain()
	default:
		d.delete()
	}
}

// neverThere reports whether the shard does not know the instance, and no call of ours for
// it can still be on its way.
func (d *decision) neverThere() bool {
	t := d.o.Tried
	return !d.created() && t.Instance == d.o.Machine.Spec.InstanceID && t.Unknown &&
		d.o.Presence != inventory.Present && d.now.Sub(t.CreateAt) > inFlight
}

func (d *decision) waitForShard() {
	m := d.o.Machine
	message := fmt.Sprintf("shard %s does not answer, so instance %s cannot be ended; wait, or set annotation %s=true and end it by hand",
		m.Spec.Shard, m.Spec.InstanceID, infrav1.AnnotationForceRemove)
	d.set(status.True(infrav1.ConditionDeleting, infrav1.ReasonShardUnreachable, message))
	d.RequeueAfter = warnEvery
	if d.now.Sub(d.o.Tried.WarnedAt) >= warnEvery {
		d.do(PublishEvent{Reason: reasonWaits, Warning: true, Message: message})
	}
}

// waitForDrain says what the end of the instance waits for: a change of its Node, or the
// deadline.
func (d *decision) waitForDrain() {
	d.RequeueAfter = lookAgain
	if deadline := drain.Deadline(d.o.Machine, d.o.Owner); !deadline.IsZero() {
		d.RequeueAfter = min(d.RequeueAfter, deadline.Sub(d.now))
	}
	if d.o.NodeDoubt == "" {
		d.set(status.True(infrav1.ConditionDeleting, infrav1.ReasonDraining, "draining node "+d.o.Node.Name))
		return
	}
	remedy := "delete the stale Node, correct its providerID or restore access to the Nodes"
	if deadline := drain.Deadline(d.o.Machine, d.o.Owner); !deadline.IsZero() {
		remedy += ", or wait until " + deadline.UTC().Format(time.RFC3339)
	}
	d.set(status.True(infrav1.ConditionDeleting, infrav1.ReasonNodeUncertain,
		fmt.Sprintf("cannot tell which Node belongs to this instance; %s: %s", remedy, d.o.NodeDoubt)))
}

// toDrain reports whether work may still be on the Node, and who moves it away has the time.
func (d *decision) toDrain() bool {
	owner := d.o.Owner
	switch {
	case d.o.NodeDoubt == "" && (d.o.Node == nil || d.o.Node.Drained):
		return false
	case d.o.Reported.GetStatus() == inventory.StatusTerminating:
		return false
	case drain.KeepsWork(owner), drain.ClusterAPIDrains(d.o.Machine, owner, d.o.HasControlPlane, d.o.nodeJoined()):
		return false
	}
	deadline := drain.Deadline(d.o.Machine, owner)
	return deadline.IsZero() || d.now.Before(deadline)
}

// delete asks for the end of the instance: once, again if the group is to get smaller with
// it after all, and from time to time as long as it does not end.
func (d *decision) delete() {
	m, t := d.o.Machine, d.o.Tried
	decrement := m.Spec.Mode == infrav1.MachineManaged && d.o.Retiring
	message := "the group replaces instance " + m.Spec.InstanceID
	switch {
	case m.Spec.Mode != infrav1.MachineManaged:
		message = "instance " + m.Spec.InstanceID + " ends"
	case decrement:
		message = "the group gets smaller with instance " + m.Spec.InstanceID
	}
	asked := t.Instance == m.Spec.InstanceID && !t.DeleteAt.IsZero() && (t.Decremented || !decrement)
	pause := d.retryDeletion()
	switch left := t.DeleteAt.Add(lookAgain).Sub(d.now); {
	case pause > 0:
		message, d.RequeueAfter = "retrying after a failure: "+t.DeleteMessage, pause
	case asked && left > 0:
		d.RequeueAfter = left
	case d.o.mass(decrement) && d.o.shard(m.Spec.Shard).Group.GetDeleting():
		message, d.RequeueAfter = "the group is deleted, and its shard ends instance "+m.Spec.InstanceID, lookAgain
	case d.o.mass(decrement) && d.o.Waits > 0:
		message, d.RequeueAfter = "instance "+m.Spec.InstanceID+" waits: deletion rate limit of the group reached; next attempt within a minute", d.o.Waits
	default:
		d.do(Delete{Decrement: decrement})
		d.RequeueAfter = lookAgain
	}
	d.set(status.True(infrav1.ConditionDeleting, infrav1.ReasonDeleting, message))
}

// retryDeletion returns how long it is until a deletion that failed may be asked for again;
// zero: it may be now.
func (d *decision) retryDeletion() time.Duration {
	t := d.o.Tried
	if t.DeleteFailures == 0 || t.Instance != d.o.Machine.Spec.InstanceID {
		return 0
	}
	pause := backoff.Growing(string(d.o.Machine.UID), t.DeleteFailures, time.Second, longestPause)
	return max(t.DeleteFailedAt.Add(pause).Sub(d.now), 0)
}

// mass reports whether asking for the end of the instance is bounded: its group does not
// get smaller with it, so it may be one of all of them, and it was not asked for before.
func (o Observation) mass(decrement bool) bool {
	asked := o.Tried.Instance == o.Machine.Spec.InstanceID && !o.Tried.DeleteAt.IsZero()
	return o.Machine.Spec.Mode == infrav1.MachineManaged && !decrement && !asked
}
