package fleet

import (
	"errors"
	"fmt"
)

// State is a station in the life of an instance. The zero State is none at all
// and takes no event.
//
//	Pending ─▶ Provisioning ─▶ Running ◀─▶ Suspect
//	   │             │            │           │
//	   └─────────────┴─▶ Unhealthy ◀──────────┘   (back to Running on a report)
//	any of these ─▶ Condemned ─▶ Draining ─▶ Deleting ─▶ Deleted
//	                    └────────────────────▶┘
//
// From Condemned one event leads back, to Running: a new leader looks again at an
// instance that its predecessor condemned as unhealthy ([Removal.Revocable]). What
// is drained or deleted already goes on.
type State string

// The states.
const (
	Pending      State = "pending"      // recorded; no create has been answered
	Provisioning State = "provisioning" // the VM was accepted; its agent has not registered
	Running      State = "running"      // registered and heard of in time
	Suspect      State = "suspect"      // a report is overdue, or its stream broke
	Unhealthy    State = "unhealthy"    // found sick, with a verdict, and not condemned yet
	Condemned    State = "condemned"    // it has to go, and its record says why
	Draining     State = "draining"     // somebody moves the work off it
	Deleting     State = "deleting"     // the provider has been told to delete it
	Deleted      State = "deleted"      // its VM is confirmed gone, or never was
)

// States returns every state, in the order of a life.
func States() []State {
	return []State{
		Pending, Provisioning, Running, Suspect, Unhealthy,
		Condemned, Draining, Deleting, Deleted,
	}
}

// Live reports whether the instance is, or is about to be, of use.
func (s State) Live() bool {
	switch s {
	case Pending, Provisioning, Running, Suspect:
		return true
	default:
		return false
	}
}

// Sick reports whether the instance was found sick and still waits for its end.
func (s State) Sick() bool { return s == Unhealthy }

// Leaving reports whether the instance is condemned and its VM may still exist.
func (s State) Leaving() bool {
	switch s {
	case Condemned, Draining, Deleting:
		return true
	default:
		return false
	}
}

// Registered reports whether the instance is live and its agent has registered.
func (s State) Registered() bool { return s == Running || s == Suspect }

// Event is something that was decided about, or found out of, one instance.
// The zero Event is none.
type Event uint8

// The events.
const (
	EventAccepted      Event = iota + 1 // the provider has the VM: it answered the create, or lists it
	EventCreateRefused                  // the provider refused the create for good: there is no VM
	EventRegistered                     // its agent registered
	EventReported                       // its agent was heard of in time
	EventMissed                         // a report is overdue, or the stream broke
	EventFoundSick                      // the verdict: it cannot be relied on
	EventCondemned                      // its removal is recorded
	EventDrainStarted                   // its drain is announced
	EventDeleteSent                     // its delete goes to the provider
	EventGone                           // the provider confirms that there is no VM
	EventReconsidered                   // a new leader judges it again: its removal is taken back
)

var eventNames = [...]string{
	EventAccepted:      "accepted",
	EventCreateRefused: "create-refused",
	EventRegistered:    "registered",
	EventReported:      "reported",
	EventMissed:        "missed",
	EventFoundSick:     "found-sick",
	EventCondemned:     "condemned",
	EventDrainStarted:  "drain-started",
	EventDeleteSent:    "delete-sent",
	EventGone:          "gone",
	EventReconsidered:  "reconsidered",
}

// Events returns every event.
func Events() []Event {
	all := make([]Event, 0, len(eventNames)-1)
	for e := EventAccepted; int(e) < len(eventNames); e++ {
		all = append(all, e)
	}
	return all
}

// String is the event in words; "none" for the zero Event.
func (e Event) String() string {
	switch {
	case e == 0:
		return "none"
	case int(e) < len(eventNames):
		return eventNames[e]
	default:
		return fmt.Sprintf("event(%d)", uint8(e))
	}
}

// ErrTransition is matched by the error of an event that a state does not take.
var ErrTransition = errors.New("event not possible in this state")

// TransitionError says which event came in which state. It matches
// [ErrTransition].
type TransitionError struct {
	State State
	Event Event
}

// Error names state and event.
func (e *TransitionError) Error() string {
	return fmt.Sprintf("instance in state %q: event %s not possible", string(e.State), e.Event)
}

// Unwrap makes errors.Is(err, ErrTransition) true.
func (e *TransitionError) Unwrap() error { return ErrTransition }

// transitions is the whole state machine; a pair that is not here is an error.
//
// Events arrive twice and late. So an event that a state has already seen is
// taken and changes nothing, and what an agent still says from a condemned
// machine is heard without bringing it back.
var transitions = map[State]map[Event]State{
	Pending: {
		EventAccepted:      Provisioning,
		EventCreateRefused: Deleted,
		EventRegistered:    Running, // the answer to its create was lost
		EventFoundSick:     Unhealthy,
		EventCondemned:     Condemned,
	},
	Provisioning: {
		EventAccepted:      Provisioning,
		EventCreateRefused: Deleted, // a listing had shown what there was of it while it was made
		EventRegistered:    Running,
		EventFoundSick:     Unhealthy,
		EventCondemned:     Condemned,
	},
	Running: {
		EventAccepted:   Running,
		EventRegistered: Running,
		EventReported:   Running,
		EventMissed:     Suspect,
		EventFoundSick:  Unhealthy,
		EventCondemned:  Condemned,
	},
	Suspect: {
		EventAccepted:   Suspect,
		EventRegistered: Running,
		EventReported:   Running,
		EventMissed:     Suspect,
		EventFoundSick:  Unhealthy,
		EventCondemned:  Condemned,
	},
	Unhealthy: {
		EventAccepted:      Unhealthy,
		EventCreateRefused: Deleted, // it waited so long to be asked for that it was given up
		EventRegistered:    Running,
		EventReported:      Running,
		EventMissed:        Unhealthy,
		EventFoundSick:     Unhealthy,
		EventCondemned:     Condemned,
	},
	Condemned: {
		EventAccepted:     Condemned,
		EventReported:     Condemned,
		EventMissed:       Condemned,
		EventFoundSick:    Condemned,
		EventCondemned:    Condemned,
		EventDrainStarted: Draining,
		EventDeleteSent:   Deleting,
		EventGone:         Deleted,
		EventReconsidered: Running,
	},
	Draining: {
		EventAccepted:     Draining,
		EventReported:     Draining,
		EventMissed:       Draining,
		EventFoundSick:    Draining,
		EventCondemned:    Draining,
		EventDrainStarted: Draining,
		EventDeleteSent:   Deleting,
		EventGone:         Deleted,
	},
	Deleting: {
		EventAccepted:   Deleting,
		EventReported:   Deleting,
		EventMissed:     Deleting,
		EventFoundSick:  Deleting,
		EventCondemned:  Deleting,
		EventDeleteSent: Deleting,
		EventGone:       Deleted,
	},
	Deleted: {
		EventGone: Deleted,
	},
}

// On returns the state after e. Where e is not possible the state is returned
// unchanged with a [*TransitionError].
func (s State) On(e Event) (State, error) {
	next, ok := transitions[s][e]
	if !ok {
		return s, &TransitionError{State: s, Event: e}
	}
	return next, nil
}

// Status is the instance's state in the words of the API: pending,
// provisioning, running, powered-off, unhealthy, draining, terminating, terminated or
// unknown. One that was switched off on purpose is powered-off.
func Status(in Instance) string {
	switch in.State {
	case Pending, Provisioning, Unhealthy, Draining:
		return string(in.State)
	case Running, Suspect:
		if in.Power == Down && in.Hold.Reason == HoldPower {
			return "powered-off"
		}
		return "running"
	case Condemned:
		if in.Removal.hasDrain() {
			return "draining"
		}
		return "terminating"
	case Deleting:
		return "terminating"
	case Deleted:
		return "terminated"
	default:
		return "unknown"
	}
}
