package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

const (
	grace    = 2 * time.Second // between the polite signal and the killing one
	markLife = time.Hour       // how late a create may arrive after its delete
	sweeping = 10 * time.Minute
)

// Delete marks the machine for its end and returns; the end goes on by itself.
// The mark alone keeps a create from arriving late.
func (d *Driver) Delete(ctx context.Context, ref driver.Ref) error {
	const op = "delete"
	if err := ctx.Err(); err != nil {
		return driver.Fail(driver.Transient, op, err)
	}
	id, err := resolve(op, ref)
	if err != nil {
		return err
	}
	mark, err := os.OpenFile(d.hidden(marksDir, id), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return driver.Fail(driver.Transient, op, err)
	}
	_ = mark.Close() // it has no content to lose
	// A create that has the lock and did not see the mark will have made its
	// machine when the end gets the lock: so the end is always tried.
	d.endLater(id)
	return nil
}

// endLater ends a marked machine in the background, once at a time.
func (d *Driver) endLater(id identity.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.ending[id] {
		return
	}
	d.ending[id] = true
	d.wg.Go(func() {
		err := d.end(d.life, id)
		d.mu.Lock()
		delete(d.ending, id)
		d.mu.Unlock()
		if err != nil && d.life.Err() == nil {
			d.opts.Log.Warn("cannot end a machine yet", "instance", id, "error", err)
		}
	})
}

// end stops a marked machine and removes it.
func (d *Driver) end(ctx context.Context, id identity.ID) error {
	unlock, err := d.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	if there, err := exists(d.dir(id)); err != nil || !there {
		return err
	}
	_, p, err := d.look(string(id))
	if err != nil {
		return err
	}
	if err := d.stop(ctx, id, p); err != nil {
		return err
	}
	return d.remove(id)
}

// stop ends the process of a machine and everything in its session: politely,
// then not. The caller holds the machine's lock.
func (d *Driver) stop(ctx context.Context, id identity.ID, p process) error {
	opened, err := d.host.open(p)
	if err == nil {
		err = terminate(ctx, opened)
		opened.close()
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return d.host.killStrays(ctx, p, d.dir(id))
}

// kill ends them as a loss of power does. The caller holds the machine's lock.
func (d *Driver) kill(ctx context.Context, id identity.ID, p process) error {
	opened, err := d.host.open(p)
	if err == nil {
		if err = opened.signalGroup(unix.SIGKILL); err == nil {
			err = opened.wait(ctx)
		}
		opened.close()
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return d.host.killStrays(ctx, p, d.dir(id))
}

func terminate(ctx context.Context, h handle) error {
	if err := h.signalGroup(unix.SIGTERM); err != nil {
		return err
	}
	polite, cancel := context.WithTimeout(ctx, grace)
	err := h.wait(polite)
	cancel()
	if err == nil || ctx.Err() != nil {
		return err
	}
	if err := h.signalGroup(unix.SIGKILL); err != nil {
		return err
	}
	return h.wait(ctx)
}

// remove takes away the directory of a machine that was stopped. It vanishes
// whole, so that no look finds half a machine. The caller holds the machine's
// lock.
func (d *Driver) remove(id identity.ID) error {
	trash := d.hidden(trashDir, id)
	if err := os.RemoveAll(trash); err != nil {
		return err
	}
	if err := os.Rename(d.dir(id), trash); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return os.RemoveAll(trash)
}

// sweep forgets marks that no create can be late for any more, and clears away
// what crashes left, every few minutes. What it cannot remove it leaves for the
// next time.
func (d *Driver) sweep() {
	now := d.opts.Now()
	d.mu.Lock()
	due := now.Sub(d.swept) >= sweeping
	if due {
		d.swept = now
	}
	d.mu.Unlock()
	if !due {
		return
	}
	d.sweepDir(trashDir, now, func(identity.ID) bool { return true })
	d.sweepDir(newDir, now, func(identity.ID) bool { return true })
	d.sweepDir(marksDir, now, func(id identity.ID) bool {
		there, err := exists(d.dir(id))
		return err == nil && !there
	})
}

// sweepDir removes what is older than an hour and garbage.
func (d *Driver) sweepDir(sub string, now time.Time, garbage func(identity.ID) bool) {
	entries, err := os.ReadDir(filepath.Join(d.opts.Dir, sub))
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < markLife || !garbage(identity.ID(e.Name())) {
			continue
		}
		_ = os.RemoveAll(filepath.Join(d.opts.Dir, sub, e.Name()))
	}
}
