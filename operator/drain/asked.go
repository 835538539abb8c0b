package drain

import (
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	api "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Times of drains.
const (
	// sparedFor is how long a shard must have shown an instance as one that is to live
	// before its drain is undone.
	sparedFor = 10 * time.Second
	// repeatAfter is when a shard that was told that a Node is empty, and does not act, is
	// told again.
	repeatAfter = 15 * time.Second
	// reasonRequested is the reason of a drain for a machine that was deleted.
	reasonRequested = "requested"
)

// Sight is what is known of an instance that may have to be drained.
type Sight struct {
	// Presence and Said are the inventory's, Synced: all instances of the shard are known.
	Presence inventory.Presence
	Said     *nstancev1.InstanceStatus
	Synced   bool
	// Machine stands for it, Owner is its Machine; nil: there is none.
	Machine *api.NstanceMachine
	Owner   *clusterv1.Machine
	// CoreDrains: Cluster API empties Nodes before it deletes machines. Paused: the Cluster
	// or the machine is, so a deletion of the machine does nothing yet.
	CoreDrains, Paused bool
	// NodeJoined is when the Node was made; zero: there is none.
	NodeJoined time.Time
	// State is what was done so far; SparedSince is when the instance was first seen to be
	// spared, zero: it is not.
	State       State
	SparedSince time.Time
}

// Answer is what follows.
type Answer struct {
	// Request is what the drain is to do; Wanted: there is one.
	Request Request
	Wanted  bool
	Fate    Fate
	// Repeated: the shard is to be told again that the Node is empty.
	Repeated bool
	// Spared: the instance looks like one that is to live; for how long is the caller's to
	// remember.
	Spared bool
}

// Asked says whether an instance is to be drained. A drain that was begun goes on as long
// as nothing says otherwise, also while its shard is out of sight.
func Asked(s Sight, now time.Time) Answer {
	if s.Presence == inventory.Gone || s.Said.GetStatus() == inventory.StatusTerminated {
		return Answer{Wanted: s.begun(), Fate: Deleted, Request: s.remembered()}
	}
	if s.Said.GetStatus() == inventory.StatusTerminating {
		return Answer{Wanted: s.begun(), Fate: Deleting, Request: s.remembered()}
	}
	if s.Presence == inventory.Present && s.Said.GetCondemned() != nil {
		c := s.Said.GetCondemned()
		a := Answer{Wanted: true, Request: Request{Instance: s.id(), Reason: c.GetReason(), Acknowledge: true}}
		if at := c.GetDeleteAt(); at != nil {
			a.Request.Deadline = at.AsTime()
		}
		a.Repeated = s.State.Phase == api.DrainDone && s.State.Acked && now.Sub(s.State.AckedAt) >= repeatAfter
		return a
	}
	if r, ok := s.removed(); ok {
		return Answer{Wanted: true, Request: r}
	}
	spared := s.lives() && s.Synced
	a := Answer{Wanted: s.begun(), Request: s.remembered(), Spared: spared}
	a.Request.Acknowledge = a.Wanted && s.mayBeCondemned()
	if spared && !s.SparedSince.IsZero() && now.Sub(s.SparedSince) >= sparedFor {
		a.Fate = Spared
	}
	return a
}

// lives reports whether the shard shows the instance, and has not condemned it.
func (s Sight) lives() bool {
	return s.Presence == inventory.Present && s.Said.GetStatus() != inventory.StatusUnknown && s.Said.GetCondemned() == nil
}

// mayBeCondemned reports whether a shard that is out of sight may wait to hear that the
// Node is empty. A shard deletes whoever is said to be drained, whether it had decided so
// or not. So nothing is said of an instance that it shows as one that lives, nor of one
// whose machine is being deleted: that asks for its end in its own time (F37).
func (s Sight) mayBeCondemned() bool {
	return !s.lives() && (s.Machine == nil || s.Machine.DeletionTimestamp.IsZero())
}

func (s Sight) begun() bool { return s.State.Phase != None }

func (s Sight) id() string {
	if s.Machine != nil {
		return s.Machine.Spec.InstanceID
	}
	return s.Said.GetInstanceId()
}

// remembered is the request that a drain was begun with.
func (s Sight) remembered() Request {
	if !s.begun() {
		return Request{}
	}
	return Request{
		Instance: s.State.Instance, Reason: s.State.Reason, Decided: s.State.StartedAt, Deadline: s.State.Deadline,
	}
}

// removed returns the request that follows from the deletion of the machine: if Cluster
// API has left the Node as it was. A drain that was begun before Cluster API took over
// goes on, as one that only looks.
func (s Sight) removed() (Request, bool) {
	m := s.Machine
	switch {
	case m == nil, m.DeletionTimestamp.IsZero(), !controllerutil.ContainsFinalizer(m, api.FinalizerMachine):
		return Request{}, false
	case KeepsWork(s.Owner):
		return Request{}, false
	case s.Paused, CoreDrained(m, s.Owner, s.CoreDrains, s.NodeJoined) && !s.begun():
		return Request{}, false
	}
	return Request{
		Instance: m.Spec.InstanceID, Reason: reasonRequested, Decided: m.DeletionTimestamp.Time, Deadline: Deadline(m, s.Owner),
	}, true
}
