package agents

import (
	"context"

	"nstance.dev/protos/identity"
	"nstance.dev/server/keylock"
)

// turns are those of instances whose streams are attached or detached: Files and Liveness hear of
// all streams of an instance in the order in which they follow each other.
type turns struct{ locks keylock.Locks[identity.ID] }

// of waits until no other stream of the instance is attached or detached, and returns what ends the
// turn.
func (t *turns) of(id identity.ID) (end func()) {
	end, err := t.locks.Lock(context.Background(), id)
	if err != nil {
		panic(err) // of a context that is never cancelled
	}
	return end
}
