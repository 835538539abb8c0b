package reclaim

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/operator/drain"
)

// Requests are the drains that shards ask for by instructions. Its zero value is ready, and it is
// safe for concurrent use.
type Requests struct {
	mu        sync.Mutex
	begun     map[string]instruction // by machine
	withdrawn map[string]string      // by machine: the id of the instruction that is to be undone
	resynced  map[string]bool        // shards that have said since the start what machines they have
}

// instruction is one that was begun.
type instruction struct {
	shard    string
	node     types.UID
	nodeName string
	request  drain.Request
	told     Outcome // what the shard was told of its end
}

// Source is the source of the drain engine. A drain that an earlier process began goes on until the
// shard takes it back.
func (q *Requests) Source(s drain.Target, _ time.Time) (drain.Request, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if known, ok := q.begun[s.ID()]; ok && (s.Node == "" || s.Node == known.node) {
		return known.request, true
	}
	switch id := s.State.Instruction; {
	case id == "", drain.OfOperation(id), drain.OfRollout(id):
		return drain.Request{}, false
	case q.withdrawn[s.ID()] == id:
		return drain.Request{Instance: s.ID(), Instruction: id, Withdrawn: true}, true
	default:
		return s.Remembered(), true
	}
}

func (q *Requests) begin(machine string, i instruction) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.begun == nil {
		q.begun = map[string]instruction{}
	}
	q.begun[machine] = i
	delete(q.withdrawn, machine)
}

// of returns what was begun for a machine; nil: nothing, as far as this process knows.
func (q *Requests) of(machine string) *instruction {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i, ok := q.begun[machine]; ok {
		return &i
	}
	return nil
}

// tell notes what the shard was told.
func (q *Requests) tell(machine, id string, what Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i, ok := q.begun[machine]; ok && i.request.Instruction == id {
		i.told = what
		q.begun[machine] = i
	}
}

// withdraw has the drain for an instruction undone, whichever process began it.
func (q *Requests) withdraw(machine, id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i, ok := q.begun[machine]; ok {
		if i.request.Instruction != id {
			return // the shard has asked again since
		}
		delete(q.begun, machine)
	}
	if q.withdrawn == nil {
		q.withdrawn = map[string]string{}
	}
	q.withdrawn[machine] = id
}

// drop forgets a machine of which nothing is to be drained any more.
func (q *Requests) drop(machine string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.begun, machine)
	delete(q.withdrawn, machine)
}

// undone forgets that an instruction was withdrawn, once its Node says nothing of it.
func (q *Requests) undone(machine string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.withdrawn, machine)
}

// resync notes that a shard has begun a session: it is told once more what has ended. It returns
// the machines of which something was begun.
func (q *Requests) resync(shard string) (machines []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.resynced == nil {
		q.resynced = map[string]bool{}
	}
	q.resynced[shard] = true
	for machine, i := range q.begun {
		if i.shard == shard {
			i.told = None
			q.begun[machine] = i
			machines = append(machines, machine)
		}
	}
	return machines
}

func (q *Requests) hasResynced(shard string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.resynced[shard]
}
