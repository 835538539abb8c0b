package drain

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
)

// Source is one reason for which Nodes are drained: it returns the request for the drain of an
// instance, or false if it has none. The engine asks its sources in their order, and the first
// request counts; what the drain then does depends on the request alone. A Source changes
// nothing, does not block, and is safe for concurrent use. What a request depends on has to
// wake the engine when it changes: see [Reconciler.SetupWithManager].
type Source func(s Target, now time.Time) (Request, bool)

// Sources returns the sources of an operator without optional features, in their order: the
// shard has the last word on when an instance ends, so its request comes first.
func Sources() []Source { return []Source{CondemnedInstance, DeletedMachine} }

// CondemnedInstance requests the drain of an instance that its shard has condemned, until the
// shard deletes it. The shard waits to hear that the Node is empty.
func CondemnedInstance(s Target, _ time.Time) (Request, bool) {
	c := s.Reported.GetCondemned()
	if s.Presence != inventory.Present || c == nil {
		return Request{}, false
	}
	r := Request{Instance: s.id(), Reason: c.GetReason(), Acknowledge: true}
	if at := c.GetDeleteAt(); at != nil {
		r.Deadline = at.AsTime()
	}
	return r, true
}

// reasonRequested is the reason of a drain for a machine that was deleted.
const reasonRequested = "requested"

// DeletedMachine requests the drain of an instance whose NstanceMachine is being deleted, if
// Cluster API has not emptied the Node before. A drain that was begun before Cluster API took
// over goes on, as one that only looks.
func DeletedMachine(s Target, _ time.Time) (Request, bool) {
	m := s.Machine
	switch {
	case m == nil, m.DeletionTimestamp.IsZero(), !controllerutil.ContainsFinalizer(m, infrav1.FinalizerMachine):
		return Request{}, false
	case KeepsWork(s.Owner), s.Paused:
		return Request{}, false
	case ClusterAPIDrains(m, s.Owner, s.HasControlPlane, s.NodeJoined) && !s.begun():
		return Request{}, false
	}
	return Request{
		Instance: m.Spec.InstanceID, Reason: reasonRequested, Decided: m.DeletionTimestamp.Time, Deadline: Deadline(m, s.Owner),
	}, true
}
