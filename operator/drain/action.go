package drain

import "k8s.io/apimachinery/pkg/types"

// Action is one thing to do: WriteState, ClearState, Evict, DeletePod, Acknowledge or PublishEvent.
type Action interface{ action() }

// WriteState writes the state of the decision on the Node: see [WithState].
type WriteState struct{}

// ClearState removes the state from the Node: see [WithoutState].
type ClearState struct{}

// Evict asks a Pod to leave, by the eviction API and with its UID as precondition.
type Evict struct {
	Namespace, Name string
	UID             types.UID
	Grace           int64 // seconds
}

// DeletePod deletes a Pod directly, with its UID as precondition.
type DeletePod struct {
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

// PublishEvent publishes an event about the Node.
type PublishEvent struct {
	Reason  string
	Warning bool
	Message string
}

func (WriteState) action()   {}
func (ClearState) action()   {}
func (Evict) action()        {}
func (DeletePod) action()    {}
func (Acknowledge) action()  {}
func (PublishEvent) action() {}
