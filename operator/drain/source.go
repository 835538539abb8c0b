package drain

import (
	"cmp"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// Source is one reason for which Nodes are drained: it returns the request for the drain of an
// instance, or false if it has none. The engine asks all its sources and merges what they request,
// in their order ([Merge]); what the drain then does depends on the merged request alone. A
// request without a force has that of the engine's options. A Source changes nothing, does not
// block, and is safe for concurrent use. When what it returns may have changed, somebody wakes the
// engine: [Reconciler.Wake].
type Source func(s Target, now time.Time) (Request, bool)

// Sources returns the sources of an operator without optional features, in their order: the
// shard has the last word on when an instance ends, so its request comes first.
func Sources() []Source { return []Source{CondemnedInstance, DeletedMachine} }

// CondemnedInstance requests the drain of an instance that its shard has condemned, until the
// shard deletes it. The shard waits to hear that the Node is empty.
func CondemnedInstance(s Target, _ time.Time) (Request, bool) {
	if !s.condemned() {
		return Request{}, false
	}
	c := s.Reported.GetCondemned()
	r := Request{Instance: s.ID(), Reason: c.GetReason(), Acknowledge: true}
	if at := c.GetDeleteAt(); at != nil {
		r.Deadline = at.AsTime()
	}
	return r, true
}

// reasonRequested is the reason of a drain for a machine that was deleted.
const reasonRequested = "requested"

// DeletedMachine requests the drain of an instance whose NstanceMachine is being deleted, if
// Cluster API has not emptied the Node before. A drain that was begun before Cluster API took
// over goes on, as one that only looks. Once the shard has condemned the instance, the shard alone
// says until when.
func DeletedMachine(s Target, _ time.Time) (Request, bool) {
	m := s.Machine
	switch {
	case m == nil, m.DeletionTimestamp.IsZero(), !controllerutil.ContainsFinalizer(m, infrav1.FinalizerMachine):
		return Request{}, false
	case KeepsWork(s.Owner), s.Paused, s.condemned(), m.Annotations[infrav1.AnnotationRetiredByPool] == "true":
		return Request{}, false
	case ClusterAPIDrains(m, s.Owner, s.HasControlPlane, s.NodeJoined) && !s.begun():
		return Request{}, false
	}
	return Request{
		Instance: m.Spec.InstanceID, Reason: reasonRequested, Decided: m.DeletionTimestamp.Time, Deadline: Deadline(m, s.Owner),
	}, true
}

// OfOperation reports whether the Instruction of a drain is that of an operation on a host machine: no
// shard has heard of it.
func OfOperation(instruction string) bool {
	return strings.HasPrefix(instruction, infrav1.DrainRequestOfOperation)
}

// OfRollout reports whether the Instruction of a drain is that of a rollout of host machines: no shard
// has heard of it.
func OfRollout(instruction string) bool {
	return strings.HasPrefix(instruction, hostsv1.DrainOfRollout)
}

// withForce returns the sources with a force for requests that have none.
func withForce(sources []Source, force Force) []Source {
	all := make([]Source, len(sources))
	for i, source := range sources {
		all[i] = func(s Target, now time.Time) (Request, bool) {
			r, ok := source(s, now)
			r.Force = cmp.Or(r.Force, force)
			return r, ok
		}
	}
	return all
}
