package instances

import (
	"context"
	"sync"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
	"nstance.dev/server/keylock"
)

// Endings are the instances whose end is decided and not on record yet: those that a plan
// condemns, and those whose create is not sent any more. Who decides that by how many others
// there are does so alone in its group, and says here what it has decided before the next one
// looks; else both would count on what the other ends (S6). The zero value is ready;
// it is safe for concurrent use and must not be copied.
type Endings struct {
	deciding keylock.Locks[fleet.GroupID]

	mu      sync.Mutex
	byGroup map[fleet.GroupID]map[identity.ID]*ending
}

// ending is the end of one instance. Two may have decided it, for reasons of their own.
type ending struct {
	reason fleet.Reason // of the first one
	users  int
}

// Decide lets decide run while nobody else decides in the group, and nothing if ctx ends
// before that.
func (e *Endings) Decide(ctx context.Context, group fleet.GroupID, decide func()) error {
	unlock, err := e.deciding.Lock(ctx, group)
	if err != nil {
		return err
	}
	defer unlock()
	decide()
	return nil
}

// Begin notes that an instance is to end, until Done is called as often: when that is on
// record, or is given up.
func (e *Endings) Begin(group fleet.GroupID, id identity.ID, reason fleet.Reason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byGroup == nil {
		e.byGroup = map[fleet.GroupID]map[identity.ID]*ending{}
	}
	in := e.byGroup[group]
	if in == nil {
		in = map[identity.ID]*ending{}
		e.byGroup[group] = in
	}
	if in[id] == nil {
		in[id] = &ending{reason: reason}
	}
	in[id].users++
}

// Condemned notes that those whom a plan condemns are to end.
func (e *Endings) Condemned(group fleet.GroupID, actions []fleet.Action) {
	for _, action := range actions {
		if a, condemns := action.(fleet.Condemn); condemns {
			e.Begin(group, a.ID, a.Reason)
		}
	}
}

// Done takes back one Begin.
func (e *Endings) Done(group fleet.GroupID, id identity.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	in := e.byGroup[group]
	if in[id].users--; in[id].users > 0 {
		return
	}
	if delete(in, id); len(in) == 0 {
		delete(e.byGroup, group)
	}
}

// of are the instances of a group that are to end, and why. Ask before looking at their
// rows and records: what is done meanwhile shows there.
func (e *Endings) of(group fleet.GroupID) map[identity.ID]fleet.Reason {
	e.mu.Lock()
	defer e.mu.Unlock()
	reasons := make(map[identity.ID]fleet.Reason, len(e.byGroup[group]))
	for id, ending := range e.byGroup[group] {
		reasons[id] = ending.reason
	}
	return reasons
}
