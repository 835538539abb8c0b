package drain

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Action is one thing to do: Mark, Unmark, Evict, Kill, Acknowledge or Tell.
type Action interface{ action() }

// Mark writes the state of the decision on the Node: see Marked.
type Mark struct{}

// Unmark takes the state off the Node: see Unmarked.
type Unmark struct{}

// Evict asks a Pod to leave, by the eviction API and with its UID as precondition.
type Evict struct {
	Namespace, Name string
	UID             types.UID
	Grace           int64 // seconds
}

// Kill deletes a Pod directly, with its UID as precondition.
type Kill struct {
	Namespace, Name string
	UID             types.UID
	Grace           int64 // seconds
}

// Acknowledge tells the server that the Node is drained, which deletes its machine.
type Acknowledge struct {
	Instance      string
	Forced        bool
	Evicted, Left int
}

// Tell publishes an event about the Node.
type Tell struct {
	Reason  string
	Warning bool
	Message string
}

func (Mark) action()        {}
func (Unmark) action()      {}
func (Evict) action()       {}
func (Kill) action()        {}
func (Acknowledge) action() {}
func (Tell) action()        {}

// Counts says how far the Pods of a Node are.
type Counts struct {
	Total, Evicted, Blocked, Left int
}

// Decision is the answer of Step.
type Decision struct {
	State   State
	Actions []Action
	// Again is when to step again at the latest; zero: when something changes.
	Again time.Duration
	// Over: nothing is left to do for this instance.
	Over   bool
	Counts Counts
	// Why says what is waited for, to people.
	Why string
}
