package drain

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Times of drains.
const (
	// retainedFor is how long a shard must have shown an instance as one that is to live
	// before its drain is undone.
	retainedFor = 10 * time.Second
	// repeatAfter is when a shard that was told that a Node is empty, and does not act, is
	// told again.
	repeatAfter = 15 * time.Second
)

// Target is what is known of an instance that may have to be drained.
type Target struct {
	// Instance is its id; empty: that of Machine or Reported.
	Instance string
	// Presence and Reported are the inventory's, Synced: all instances of the shard are known.
	Presence inventory.Presence
	Reported *nstancev1.InstanceStatus
	Synced   bool
	// Machine stands for it, Owner is its Machine; nil: there is none.
	Machine *infrav1.NstanceMachine
	Owner   *clusterv1.Machine
	// HasControlPlane: the Cluster refers to a control plane, so Cluster API empties Nodes
	// before it deletes machines. Paused: the Cluster or the machine is, so a deletion of the
	// machine does nothing yet.
	HasControlPlane, Paused bool
	// Node is the UID of the Node and NodeJoined when it was made; zero: there is none.
	Node       types.UID
	NodeJoined time.Time
	// State is what was done so far; RetainedSince is when the instance was first seen to be
	// retained, zero: it is not.
	State         State
	RetainedSince time.Time
}

// Evaluation is what follows.
type Evaluation struct {
	// Request is what the drain is to do; Wanted: there is one.
	Request       Request
	Wanted        bool
	InstanceState InstanceState
	// Repeated: the shard is to be told again that the Node is empty.
	Repeated bool
	// Retained: the instance looks like one that is to live; for how long is the caller's to
	// remember.
	Retained bool
}

// Evaluate decides whether an instance is to be drained: as long as its machine exists, by what
// the sources request. A drain that was begun goes on as long as nothing says otherwise, also
// while its shard is out of sight.
func Evaluate(sources []Source, s Target, now time.Time) Evaluation {
	if s.Presence == inventory.Gone || s.Reported.GetStatus() == inventory.StatusTerminated {
		return Evaluation{Wanted: s.begun(), InstanceState: InstanceDeleted, Request: s.Remembered()}
	}
	if s.Reported.GetStatus() == inventory.StatusTerminating {
		return Evaluation{Wanted: s.begun(), InstanceState: InstanceDeleting, Request: s.Remembered()}
	}
	r, requested, withdrawn := s.requested(sources, now)
	switch {
	case requested:
		acknowledged := s.State.Phase == infrav1.DrainDone && s.State.Acked && now.Sub(s.State.AckedAt) >= repeatAfter
		return Evaluation{Wanted: true, Request: r, Repeated: acknowledged && r.Acknowledge}
	case withdrawn:
		return Evaluation{Wanted: true, Request: s.Remembered(), InstanceState: InstanceRetained}
	}
	retained := s.lives() && s.Synced
	a := Evaluation{Wanted: s.begun(), Request: s.Remembered(), Retained: retained}
	a.Request.Acknowledge = a.Wanted && s.mayBeCondemned()
	if retained && !s.RetainedSince.IsZero() && now.Sub(s.RetainedSince) >= retainedFor {
		a.InstanceState = InstanceRetained
	}
	return a
}

// requested returns what the sources request together; withdrawn: nothing, and the drain that
// was begun is to be undone.
func (s Target) requested(sources []Source, now time.Time) (all Request, requested, withdrawn bool) {
	for _, source := range sources {
		r, ok := source(s, now)
		switch {
		case !ok:
		case r.Withdrawn:
			withdrawn = withdrawn || s.begun() && r.Instruction == s.State.Instruction
		case requested:
			all = Merge(all, r)
		default:
			all, requested = r, true
		}
	}
	return all, requested, withdrawn
}

// condemned reports whether the shard has condemned the instance.
func (s Target) condemned() bool {
	return s.Presence == inventory.Present && s.Reported.GetCondemned() != nil
}

// lives reports whether the shard shows the instance, and has not condemned it.
func (s Target) lives() bool {
	return s.Presence == inventory.Present && s.Reported.GetStatus() != inventory.StatusUnknown && s.Reported.GetCondemned() == nil
}

// mayBeCondemned reports whether a shard that is out of sight may wait to hear that the
// Node is empty. A shard deletes whoever is said to be drained, whether it had decided so
// or not. So nothing is said of an instance that it shows as one that lives, nor of one
// whose machine is being deleted: that asks for its end in its own time (F37).
func (s Target) mayBeCondemned() bool {
	return !s.lives() && (s.Machine == nil || s.Machine.DeletionTimestamp.IsZero())
}

func (s Target) begun() bool { return s.State.Phase != None }

// ID returns the id of the instance.
func (s Target) ID() string {
	switch {
	case s.Instance != "":
		return s.Instance
	case s.Machine != nil:
		return s.Machine.Spec.InstanceID
	}
	return s.Reported.GetInstanceId()
}

// Remembered is the request that a drain was begun with; the zero value: none was begun.
func (s Target) Remembered() Request {
	if !s.begun() {
		return Request{}
	}
	return Request{
		Instance: s.State.Instance, Reason: s.State.Reason, Instruction: s.State.Instruction,
		Decided: s.State.StartedAt, Deadline: s.State.Deadline, Force: s.State.Force,
	}
}
