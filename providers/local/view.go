package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// Get returns one machine as the operating system sees it now.
func (d *Driver) Get(ctx context.Context, ref driver.Ref) (driver.Machine, error) {
	const op = "get"
	if err := ctx.Err(); err != nil {
		return driver.Machine{}, driver.Fail(driver.Transient, op, err)
	}
	id, err := resolve(op, ref)
	if err != nil {
		return driver.Machine{}, err
	}
	meta, err := d.metadata(string(id))
	if err == nil {
		var m driver.Machine
		if m, err = d.view(string(id), meta); err == nil {
			return m, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return driver.Machine{}, driver.Fail(driver.NotFound, op, fmt.Errorf("%s does not exist", id))
	}
	return driver.Machine{}, driver.Fail(driver.Transient, op, err)
}

// List returns the owner's machines. It fails rather than leave one out that
// cannot be read, and if the directory itself is not as [New] left it.
func (d *Driver) List(ctx context.Context, owner driver.Owner) ([]driver.Machine, error) {
	d.sweep()
	var list []driver.Machine
	err := d.each(ctx, owner, func(name string, meta metadata) error {
		m, err := d.view(name, meta)
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

// each calls visit with every directory of a machine of the owner.
func (d *Driver) each(ctx context.Context, owner driver.Owner, visit func(name string, meta metadata) error) error {
	return d.every(ctx, func(name string, meta metadata) error {
		if meta.owner() != owner {
			return nil
		}
		return visit(name, meta)
	})
}

// every calls visit with every machine's directory.
func (d *Driver) every(ctx context.Context, visit func(name string, meta metadata) error) error {
	if _, err := os.Stat(filepath.Join(d.opts.Dir, marksDir)); err != nil {
		return fmt.Errorf("the machines' directory was removed or replaced: %w", err)
	}
	entries, err := os.ReadDir(d.opts.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		meta, err := d.metadata(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := visit(e.Name(), meta); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// metadata reads what a directory says of its machine; fs.ErrNotExist if there
// is no machine of that name. A machine's directory appears with its metadata
// and vanishes with it, so one without was damaged by hand.
func (d *Driver) metadata(name string) (metadata, error) {
	dir := filepath.Join(d.opts.Dir, name)
	meta, err := readMetadata(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return meta, err
	}
	if _, malformed := identity.ParseID(name); malformed != nil {
		return meta, err // some other directory
	}
	there, lookErr := exists(dir)
	if lookErr != nil {
		return meta, lookErr
	}
	if there {
		return meta, fmt.Errorf("%s has no %s; restore the file, or end its process and remove the directory", dir, metadataFile)
	}
	return meta, err
}

// view looks at a machine, and carries on what was begun with it: a start that
// a crash interrupted, or its end. It returns fs.ErrNotExist if it is gone.
func (d *Driver) view(name string, meta metadata) (driver.Machine, error) {
	s, _, err := d.look(name)
	if err != nil {
		return driver.Machine{}, err
	}
	m := meta.machine(name, s)
	if m.InstanceID == "" {
		return m, nil // not ours to touch
	}
	m.IPv4 = d.opts.addressOf(m.InstanceID)
	switch {
	case s.marked && s.alive:
		d.endLater(m.InstanceID)
	case s.marked:
		err = d.clear(m.InstanceID)
	case s.unfinished():
		s, err = d.finishStart(m.InstanceID, s)
	}
	if err != nil {
		return driver.Machine{}, err
	}
	m.Status, m.Reason = s.status(), s.why
	return m, nil
}

// finishStart starts a machine whose create was interrupted, unless someone is
// at work on it.
func (d *Driver) finishStart(id identity.ID, s sight) (sight, error) {
	unlock, err := d.tryLock(id)
	if unlock == nil || err != nil {
		return s, err
	}
	defer unlock()
	if there, err := exists(d.dir(id)); err != nil || !there {
		return s, errors.Join(err, fs.ErrNotExist)
	}
	now, err := d.startOnce(id)
	if err != nil {
		// The machine stays pending, which is the truth, and the list stays whole.
		d.opts.Log.Warn("cannot start a machine", "instance", id, "error", err)
	}
	return now, nil
}

// clear removes a marked machine whose process has ended, unless someone is at
// work on it. It returns fs.ErrNotExist once the machine is gone.
func (d *Driver) clear(id identity.ID) error {
	unlock, err := d.tryLock(id)
	if unlock == nil || err != nil {
		return err
	}
	defer unlock()
	_, p, err := d.look(string(id))
	if err != nil {
		return err
	}
	if alive, err := d.host.alive(p); alive || err != nil {
		return err
	}
	if err = d.stop(d.life, id, p); err == nil { // what it left behind, that is
		err = d.remove(id)
	}
	if err != nil {
		d.opts.Log.Warn("cannot remove the directory of a deleted machine", "instance", id, "error", err)
		return nil
	}
	return fs.ErrNotExist
}
