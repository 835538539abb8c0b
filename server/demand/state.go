package demand

import (
	"errors"
	"fmt"
	"slices"
)

// State is a station of a machine between buying and deleting it. The zero State is an offer's slot:
// there is no machine.
//
//	Speculative ─▶ Creating ─▶ Idle ◀─▶ Configuring ─▶ Configured ─▶ Draining ─▶ Idle
//	                                                        ▲────────────┘
//	Idle, Draining, Failed ─▶ Deleting ─▶ Speculative; all but Speculative ─▶ Failed
//
// A machine moves between clusters through Idle alone.
type State uint8

// The states.
const (
	Speculative State = iota
	Creating
	Idle
	Configuring
	Configured
	Draining
	Deleting
	Failed
)

var stateNames = [...]string{"speculative", "creating", "idle", "configuring", "configured", "draining", "deleting", "failed"}

// String is the state in words.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// edges are all moves; what does not stand here is an error.
var edges = [...][]State{
	Speculative: {Creating},
	Creating:    {Idle, Failed},
	Idle:        {Configuring, Deleting, Failed},
	Configuring: {Configured, Failed, Idle},
	Configured:  {Draining, Failed},
	Draining:    {Idle, Failed, Deleting, Configured},
	Deleting:    {Speculative, Failed},
	Failed:      {Deleting},
}

// ErrTransition is matched by the error of a move that a state does not allow.
var ErrTransition = errors.New("move not possible in this state")

// Move reports whether a machine may go from one state to another: nil, or an error that matches
// [ErrTransition]. A move to the own state is none, and allowed.
func Move(from, to State) error {
	if from == to || int(from) < len(edges) && slices.Contains(edges[from], to) {
		return nil
	}
	return fmt.Errorf("%s to %s: %w", from, to, ErrTransition)
}

// Failure says why a machine is Failed, as far as what is bought next depends on it.
type Failure uint8

// The failures. A failure that is none of the others counts against its offer like one to join.
const (
	FailureOther Failure = iota
	NoCapacity           // the cloud has no room
	OverQuota            // the account may not have more
	NeverJoined          // its Node was not ready in time
	Lost                 // the machine is gone, whatever was done
)
