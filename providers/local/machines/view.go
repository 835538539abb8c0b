package machines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

// Get returns one machine as the operating system sees it now.
func (all *Machines) Get(ctx context.Context, ref driver.Ref) (driver.Machine, error) {
	const op = "get"
	if err := ctx.Err(); err != nil {
		return driver.Machine{}, driver.Fail(driver.Transient, op, err)
	}
	id, err := store.Resolve(op, ref)
	if err != nil {
		return driver.Machine{}, err
	}
	meta, err := all.store.Metadata(string(id))
	if err == nil {
		var m driver.Machine
		if m, err = all.view(string(id), meta); err == nil {
			return m, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return driver.Machine{}, driver.Fail(driver.NotFound, op, fmt.Errorf("%s does not exist", id))
	}
	return driver.Machine{}, driver.Fail(driver.Transient, op, err)
}

// List returns the owner's machines. It fails rather than leave one out that
// cannot be read, and if the directory itself is not as the store left it.
func (all *Machines) List(ctx context.Context, owner driver.Owner) ([]driver.Machine, error) {
	all.sweep()
	var list []driver.Machine
	err := all.store.Each(ctx, owner, func(name string, meta store.Metadata) error {
		m, err := all.view(name, meta)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went away while we were looking
		}
		list = append(list, m)
		return err
	})
	if err != nil {
		return nil, driver.Fail(driver.Transient, "list", err)
	}
	return list, nil
}

// view looks at a machine, and carries on what was begun with it: a start that
// a crash interrupted, or its end. It returns fs.ErrNotExist if it is gone.
func (all *Machines) view(name string, meta store.Metadata) (driver.Machine, error) {
	s, _, err := all.look(name)
	if err != nil {
		return driver.Machine{}, err
	}
	m := machineOf(meta, name, s)
	if m.InstanceID == "" {
		return m, nil // not ours to touch
	}
	m.IPv4 = all.opts.addressOf(m.InstanceID)
	switch {
	case s.marked && s.alive:
		all.endLater(m.InstanceID)
	case s.marked:
		err = all.clear(m.InstanceID)
	case s.unfinished():
		s, err = all.finishStart(m.InstanceID, s)
	}
	if err != nil {
		return driver.Machine{}, err
	}
	m.Status, m.Reason = s.status(), s.why
	return m, nil
}

// finishStart starts a machine whose create was interrupted, unless someone is
// at work on it.
func (all *Machines) finishStart(id identity.ID, s state) (state, error) {
	unlock, err := all.store.TryLock(id)
	if unlock == nil || err != nil {
		return s, err
	}
	defer unlock()
	if there, err := store.Exists(all.store.Dir(id)); err != nil || !there {
		return s, errors.Join(err, fs.ErrNotExist)
	}
	now, err := all.startOnce(id)
	if err != nil {
		// The machine stays pending, which is the truth, and the list stays whole.
		all.opts.Log.Warn("cannot start a machine", "instance", id, "error", err)
	}
	return now, nil
}

// clear removes a marked machine whose process has ended, unless someone is at
// work on it. It returns fs.ErrNotExist once the machine is gone.
func (all *Machines) clear(id identity.ID) error {
	unlock, err := all.store.TryLock(id)
	if unlock == nil || err != nil {
		return err
	}
	defer unlock()
	_, p, err := all.look(string(id))
	if err != nil {
		return err
	}
	if alive, err := all.host.Alive(p); alive || err != nil {
		return err
	}
	if err = all.stop(all.life, id, p); err == nil { // what it left behind, that is
		err = all.store.Remove(id)
	}
	if err != nil {
		all.opts.Log.Warn("cannot remove the directory of a deleted machine", "instance", id, "error", err)
		return nil
	}
	return fs.ErrNotExist
}
