package instances

import (
	"context"
	"sync"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
	"nstance.dev/server/keylock"
)

// PendingRemovals are the instances whose end is decided and not on record yet: those that a plan
// condemns, and those whose create is not sent any more. Who decides that by how many others
// there are does so alone in its group, and says here what it has decided before the next one
// looks; else both would count on what the other ends (S6). The zero value is ready;
// it is safe for concurrent use and must not be copied.
type PendingRemovals struct {
	deciding keylock.Locks[fleet.GroupID]

	mu      sync.Mutex
	byGroup map[fleet.GroupID]map[identity.ID]*pendingRemoval
}

// pendingRemoval is the end of one instance. Two may have decided it, for reasons of their own.
type pendingRemoval struct {
	reason fleet.Reason // of the first one
	users  int
}

// Decide lets decide run while nobody else decides in the group, and nothing if ctx ends
// before that.
func (p *PendingRemovals) Decide(ctx context.Context, group fleet.GroupID, decide func()) error {
	unlock, err := p.deciding.Lock(ctx, group)
	if err != nil {
		return err
	}
	defer unlock()
	decide()
	return nil
}

// Begin notes that an instance is to end, until Done is called as often: when that is on
// record, or is given up.
func (p *PendingRemovals) Begin(group fleet.GroupID, id identity.ID, reason fleet.Reason) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byGroup == nil {
		p.byGroup = map[fleet.GroupID]map[identity.ID]*pendingRemoval{}
	}
	in := p.byGroup[group]
	if in == nil {
		in = map[identity.ID]*pendingRemoval{}
		p.byGroup[group] = in
	}
	if in[id] == nil {
		in[id] = &pendingRemoval{reason: reason}
	}
	in[id].users++
}

// Condemned notes that those whom a plan condemns are to end.
func (p *PendingRemovals) Condemned(group fleet.GroupID, actions []fleet.Action) {
	for _, action := range actions {
		if a, condemns := action.(fleet.Condemn); condemns {
			p.Begin(group, a.ID, a.Reason)
		}
	}
}

// Done takes back one Begin.
func (p *PendingRemovals) Done(group fleet.GroupID, id identity.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.byGroup[group]
	if in[id].users--; in[id].users > 0 {
		return
	}
	if delete(in, id); len(in) == 0 {
		delete(p.byGroup, group)
	}
}

// of are the instances of a group that are to end, and why. Ask before looking at their
// rows and records: what is done meanwhile shows there.
func (p *PendingRemovals) of(group fleet.GroupID) map[identity.ID]fleet.Reason {
	p.mu.Lock()
	defer p.mu.Unlock()
	reasons := make(map[identity.ID]fleet.Reason, len(p.byGroup[group]))
	for id, removal := range p.byGroup[group] {
		reasons[id] = removal.reason
	}
	return reasons
}
