package instances

import (
	"cmp"
	"context"
	"errors"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

// sending notes that a removal is about to be written. The result takes note of how that
// went, unless [records.set] did.
func (rs *records) sending(e *entry, removal *layout.Deletion) (done func(error)) {
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
// or nil. It must not be changed.
func (rs *records) unconfirmed(id identity.ID) *layout.Deletion {
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

// withdraw deletes a record as remove does, unless the instance is condemned: then the
// error matches [ErrCondemned], and the record stays until that is done.
func (rs *records) withdraw(ctx context.Context, id identity.ID) error {
	return rs.removeIf(ctx, id, func(rec layout.InstanceRecord) error {
		if rec.Deletion != nil {
			return ErrCondemned
		}
		return nil
	})
}

// ErrCondemned says that an instance is condemned on record.
var ErrCondemned = errors.New("it is condemned")
