package hosts

import (
	"context"
	"errors"
	"fmt"

	"nstance.dev/protos/identity"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
)

// maxMerges bounds how often a write that lost a race is decided again.
const maxMerges = 5

// change decides about the stored assignment of a machine and makes that durable, if need be
// again on what another write has left. decide returns what is to be stored, nil for nothing,
// and must not have effects; it is asked again on a newer version. The caller has the turn.
func (m *Machines) change(known *machine, decide func(*assignment) (*assignment, verdict, error)) (what verdict, err error) {
	if err := m.writable(known); err != nil {
		return refused, err
	}
	for range maxMerges {
		stored, etag := known.stored()
		var next *assignment
		if next, what, err = decide(stored); err != nil || what != accepted {
			return what, err
		}
		etag, err = m.write(known, next, etag)
		if err == nil {
			m.learn(known, next, etag)
			return accepted, nil
		}
		if !errors.Is(err, objectstore.ErrPrecondition) {
			return refused, err
		}
		if err := m.read(m.ctx, known); err != nil {
			return refused, err
		}
	}
	return refused, fmt.Errorf("assignment of %s: %w after %d merges", known.id, objectstore.ErrPrecondition, maxMerges)
}

// writable reports why the object of a machine must not be written. One that could not be read is
// read again: somebody may have repaired or deleted it.
func (m *Machines) writable(known *machine) error {
	known.mu.Lock()
	dropped, damaged := known.dropped, known.damaged
	known.mu.Unlock()
	switch {
	case dropped:
		return fmt.Errorf("assignment of %s: %w: it is deleted with its instance", known.id, objectstore.ErrNotFound)
	case damaged != nil:
		return m.read(m.ctx, known)
	}
	return nil
}

// stored returns the assignment that is stored, and its etag.
func (m *machine) stored() (*assignment, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.assigned, m.etag
}

// write makes one write: an assignment in place of the version with etag, or nothing.
func (m *Machines) write(known *machine, next *assignment, etag string) (string, error) {
	key := layout.MachineKey(m.opts.Shard, known.tenant, known.id)
	if next == nil {
		err := objectstore.Delete(m.ctx, m.opts.Store, key, etag, m.opts.Writes)
		if errors.Is(err, objectstore.ErrNotFound) {
			err = nil
		}
		return "", wrap(known.id, err)
	}
	next.rec.Term = m.opts.Term
	rec, err := next.record()
	if err != nil {
		return "", wrap(known.id, err)
	}
	data, err := rec.Encode()
	if err != nil {
		return "", wrap(known.id, err)
	}
	etag, err = objectstore.Put(m.ctx, m.opts.Store, key, data, etag, m.opts.Writes)
	return etag, wrap(known.id, err)
}

func wrap(id identity.ID, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("assignment of %s: %w", id, err)
}

// learn notes what is stored now.
func (m *Machines) learn(known *machine, a *assignment, etag string) {
	known.mu.Lock()
	defer known.mu.Unlock()
	m.opts.Metrics.moved(known.assigned.state(), a.state())
	known.assign(a, etag)
}

// read reads what is stored of a machine. One that a later leader has written ends the term.
func (m *Machines) read(ctx context.Context, known *machine) error {
	key := layout.MachineKey(m.opts.Shard, known.tenant, known.id)
	obj, err := m.opts.Store.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		m.learn(known, nil, "")
		return nil
	}
	if err != nil {
		return wrap(known.id, err)
	}
	rec, err := layout.DecodeMachineRecord(key, obj.Data)
	if err == nil && rec.Term > m.opts.Term {
		return &lease.SupersededError{Document: "assignment of " + known.id.String(), Term: rec.Term}
	}
	var a *assignment
	if err == nil {
		a, err = readAssignment(rec)
	}
	if err != nil { // it is there, so it must be left alone until somebody repairs it
		m.opts.Metrics.unreadable.Inc()
		m.opts.Log.ErrorContext(ctx, "assignment cannot be read: it is left alone until an administrator repairs or deletes it", "key", key, "error", err)
		known.mu.Lock()
		defer known.mu.Unlock()
		known.damaged = wrap(known.id, err)
		return known.damaged
	}
	m.learn(known, a, obj.ETag)
	return nil
}

// Drop deletes the assignment of an instance whose record is deleted next. It may be called
// again.
func (m *Machines) Drop(ctx context.Context, id identity.ID, tenant string) error {
	unlock, err := m.writing.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	known := m.find(id)
	if known == nil {
		known = &machine{id: id, tenant: tenant} // it was forgotten, or nothing is known of it yet
	}
	known.mu.Lock()
	known.dropped = true
	known.mu.Unlock()
	for range maxMerges {
		key := layout.MachineKey(m.opts.Shard, tenant, id)
		obj, err := m.opts.Store.Get(ctx, key)
		if err == nil {
			err = objectstore.Delete(ctx, m.opts.Store, key, obj.ETag, m.opts.Writes)
		}
		switch {
		case err == nil, errors.Is(err, objectstore.ErrNotFound):
			m.learn(known, nil, "")
			return nil
		case !errors.Is(err, objectstore.ErrPrecondition):
			return wrap(id, err)
		}
	}
	return fmt.Errorf("assignment of %s: %w after %d tries to delete it", id, objectstore.ErrPrecondition, maxMerges)
}

// Forget drops what is kept of an instance that does not exist any more.
func (m *Machines) Forget(id identity.ID) {
	known := m.forget(id)
	if known == nil {
		return
	}
	m.learn(known, nil, "")
	m.watchers.tell(known.tenant, id)
}
