package inventory

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Statuses of instances, as the servers write them.
const (
	StatusPending      = "pending"
	StatusProvisioning = "provisioning"
	StatusRunning      = "running"
	StatusPoweredOff   = "powered-off" // on purpose, and on hold
	StatusUnhealthy    = "unhealthy"
	StatusDraining     = "draining"
	StatusTerminating  = "terminating"
	StatusTerminated   = "terminated"
	StatusUnknown      = "unknown"
)

// Statuses of events.
const (
	eventCreated         = "created"
	eventRegistered      = "registered"
	eventRunning         = "running"
	eventPendingDeletion = "pending_deletion"
	eventDeleting        = "deleting"
	eventDeleted         = "deleted"
)

// GroupEvent takes in a change of a group.
func (s *Shard) GroupEvent(e *nstancev1.GroupEvent, now time.Time) []Change {
	g := e.GetGroup()
	if e.GetType() != "DELETE" {
		return s.group(g, now)
	}
	if foreign := s.foreign(g.GetTenant(), "a group"); foreign != nil {
		return foreign
	}
	s.ended[g.GetKey()] = now
	if s.groups[g.GetKey()] == nil {
		return nil
	}
	delete(s.groups, g.GetKey())
	return []Change{{Kind: GroupGone, Group: g.GetKey()}}
}

// InstanceEvent takes in a change in an instance's life, with all that its shard says of the
// instance. The event of a server of before says less: what it does not mention stays as it
// was, and of an instance that only such events have told of HasDetails is false. Signs of the
// stream itself, and words that are not known and describe nothing, change nothing. An instance that
// was missing is not missing any more after an event, so the number in the State changes too.
func (s *Shard) InstanceEvent(e *nstancev1.InstanceEvent, now time.Time) []Change {
	before := s.State()
	changes := s.instanceEvent(e, now)
	return append(changes, s.changed(before)...)
}

func (s *Shard) instanceEvent(e *nstancev1.InstanceEvent, now time.Time) []Change {
	s.prune(now)
	id := e.GetInstanceId()
	if id == "" {
		return nil
	}
	if foreign := s.foreign(e.GetTenant(), "an event"); foreign != nil {
		return foreign
	}
	if e.GetStatus() == eventDeleted { // final, however late
		if _, known := s.tombstones[id]; !known {
			t := tombstone{at: now, why: e.GetReason()}
			if was := s.instances.byID[id]; was != nil {
				t.uri = was.said.GetProviderUri()
				t.why = cmp.Or(t.why, was.said.GetCondemned().GetReason())
			}
			s.tombstones[id] = t
		}
		return s.remove(id, deletedWhy(e.GetReason()))
	}
	old := s.instances.byID[id]
	if old != nil && e.GetRevision() <= old.said.GetRevision() && old.said.GetRevision() > 0 {
		return nil
	}
	if whole := e.GetInstance(); whole.GetInstanceId() == id {
		return s.instance(whole, now)
	}
	var next *nstancev1.InstanceStatus
	switch {
	case old == nil:
		next = &nstancev1.InstanceStatus{InstanceId: id, Tenant: e.GetTenant(), Group: e.GetGroup(), Status: StatusUnknown}
	default:
		next = proto.CloneOf(old.said)
	}
	if !apply(next, e, now) {
		return nil
	}
	return s.instance(next, now)
}

func deletedWhy(reason string) string {
	if reason == "" {
		return "its shard deleted it"
	}
	return "its shard deleted it: " + reason
}

// apply puts what an event without its instance says into a status; false if it says nothing.
func apply(to *nstancev1.InstanceStatus, e *nstancev1.InstanceEvent, now time.Time) bool {
	switch e.GetStatus() {
	case eventCreated:
		to.Status = StatusPending
	case eventRegistered:
		if to.GetRegisteredAt() == nil {
			to.RegisteredAt = timestamppb.New(now)
		}
	case eventRunning:
		to.Status = StatusRunning
	case eventPendingDeletion:
		to.Status = StatusDraining
		to.Condemned = &nstancev1.Condemned{Reason: e.GetReason(), DeleteAt: e.GetDeleteAt()}
	case eventDeleting:
		to.Status = StatusTerminating
		if to.GetCondemned() == nil {
			to.Condemned = &nstancev1.Condemned{Reason: e.GetReason(), DeleteAt: e.GetDeleteAt()}
		}
	default:
		return false
	}
	if e.GetProviderInstanceId() != "" {
		to.ProviderInstanceId = e.GetProviderInstanceId()
	}
	to.Revision = e.GetRevision()
	return true
}
