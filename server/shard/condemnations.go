package shard

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
)

// sending notes that a removal is about to be written. The result takes note of how that
// went, unless [records.set] did.
func (rs *records) sending(e *recordEntry, removal *bucket.Deletion) (done func(error)) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	before := e.unconfirmed
	e.unconfirmed, e.writing = removal, true
	return func(err error) {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		e.writing = false
		if !errors.Is(err, objectstore.ErrUnavailable) {
			e.unconfirmed = before
		}
	}
}

// unconfirmed is the removal of an instance that was sent and whose outcome is not known,
// or nil.
func (rs *records) unconfirmed(id identity.ID) *bucket.Deletion {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if e := rs.byID[id]; e != nil {
		return e.unconfirmed
	}
	return nil
}

// condemning adds to instances, in place, for which reason they are condemned on record,
// or may be. It returns them.
func (rs *records) condemning(ins []fleet.Instance) []fleet.Instance {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for i := range ins {
		e := rs.byID[ins[i].ID]
		if e == nil || ins[i].State.Leaving() || ins[i].State == fleet.Deleted {
			continue
		}
		if removal := cmp.Or(e.rec.Deletion, e.unconfirmed); removal != nil {
			ins[i].Condemning, ins[i].Writing = fleet.Reason(removal.Reason), e.writing
		}
	}
	return ins
}

// errCondemned says that an instance is condemned on record.
var errCondemned = errors.New("it is condemned")

// withdraw deletes a record as remove does, unless the instance is condemned: then the
// error is errCondemned, and the record stays until that is done.
func (rs *records) withdraw(ctx context.Context, id identity.ID) error {
	return rs.removeIf(ctx, id, func(rec bucket.InstanceRecord) error {
		if rec.Deletion != nil {
			return errCondemned
		}
		return nil
	})
}

// inherits notes the groups that have more instances than they should when their leader takes
// over. A condemnation that the last leader chose for their size may be on its way still.
func (rs *records) inherits(rows []cache.Instance, desired func(fleet.GroupID) int) {
	counts := map[fleet.GroupID]int{}
	for i := range rows {
		if in := &rows[i]; !in.OnDemand && (in.State.Live() || in.State.Sick()) {
			counts[in.Group]++
		}
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.crowded = map[fleet.GroupID]bool{}
	for group, n := range counts {
		if n > desired(group) {
			rs.crowded[group] = true
		}
	}
}

// mustFence reports whether a group has to be fenced before what is planned is done: for
// its size some are to go that the last leader may not have chosen (S6).
func (rs *records) mustFence(group fleet.GroupID, planned []fleet.Action) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.crowded[group] && slices.ContainsFunc(planned, func(action fleet.Action) bool {
		a, condemns := action.(fleet.Condemn)
		return condemns && a.Reason == fleet.ReasonScaleDown
	})
}

// fence writes the records of a group's instances again that a former leader wrote last.
// Then nothing lands on them any more that was sent on the condition of an older version,
// and what has landed before is known, and is carried out by the next plan.
func (rs *records) fence(ctx context.Context, group fleet.GroupID, ins []fleet.Instance) error {
	var g errgroup.Group
	g.SetLimit(actionsAtOnce)
	errs := make([]error, len(ins))
	for i, in := range ins {
		if rec, ok := rs.get(in.ID); !ok || rec.Term == rs.term {
			continue
		}
		g.Go(func() error {
			_, err := rs.update(ctx, in.ID, func(*bucket.InstanceRecord) error { return nil })
			if !errors.Is(err, objectstore.ErrNotFound) {
				errs[i] = err
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	err := errors.Join(errs...)
	if err == nil {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		delete(rs.crowded, group)
	}
	return err
}

// endings are the instances whose end is decided and not on record yet: those that a plan
// condemns, and those whose create is not sent any more. Who decides that by how many others
// there are does so alone in its group, and says here what it has decided before the next one
// looks; else both would count on what the other ends (S6). The zero value is ready.
type endings struct {
	deciding keyedLocks[fleet.GroupID]

	mu      sync.Mutex
	byGroup map[fleet.GroupID]map[identity.ID]*ending
}

// ending is the end of one instance. Two may have decided it, for reasons of their own.
type ending struct {
	reason fleet.Reason // of the first one
	users  int
}

// decide lets decide run while nobody else decides in the group, and nothing if ctx ends
// before that.
func (e *endings) decide(ctx context.Context, group fleet.GroupID, decide func()) error {
	unlock, err := e.deciding.lock(ctx, group)
	if err != nil {
		return err
	}
	defer unlock()
	decide()
	return nil
}

// begin notes that an instance is to end, until done is called as often: when that is on
// record, or is given up.
func (e *endings) begin(group fleet.GroupID, id identity.ID, reason fleet.Reason) {
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

// condemned notes that those whom a plan condemns are to end.
func (e *endings) condemned(group fleet.GroupID, actions []fleet.Action) {
	for _, action := range actions {
		if a, condemns := action.(fleet.Condemn); condemns {
			e.begin(group, a.ID, a.Reason)
		}
	}
}

// done takes back one begin.
func (e *endings) done(group fleet.GroupID, id identity.ID) {
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
func (e *endings) of(group fleet.GroupID) map[identity.ID]fleet.Reason {
	e.mu.Lock()
	defer e.mu.Unlock()
	reasons := make(map[identity.ID]fleet.Reason, len(e.byGroup[group]))
	for id, ending := range e.byGroup[group] {
		reasons[id] = ending.reason
	}
	return reasons
}
