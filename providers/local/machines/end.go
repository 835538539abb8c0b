package machines

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/local/process"
	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

const (
	grace    = 2 * time.Second // between the polite signal and the killing one
	sweeping = 10 * time.Minute
)

// Delete marks the machine for its end and returns; the end goes on by itself.
// The mark alone keeps a create from arriving late.
func (all *Machines) Delete(ctx context.Context, ref driver.Ref) error {
	const op = "delete"
	if err := ctx.Err(); err != nil {
		return driver.Fail(driver.Transient, op, err)
	}
	id, err := store.Resolve(op, ref)
	if err != nil {
		return err
	}
	if err := all.store.Mark(id); err != nil {
		return driver.Fail(driver.Transient, op, err)
	}
	// A create that has the lock and did not see the mark will have made its
	// machine when the end gets the lock: so the end is always tried.
	all.endLater(id)
	return nil
}

// endLater ends a marked machine in the background, once at a time.
func (all *Machines) endLater(id identity.ID) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed || all.ending[id] {
		return
	}
	all.ending[id] = true
	all.wg.Go(func() {
		err := all.end(all.life, id)
		all.mu.Lock()
		delete(all.ending, id)
		all.mu.Unlock()
		if err != nil && all.life.Err() == nil {
			all.opts.Log.Warn("cannot end a machine yet", "instance", id, "error", err)
		}
	})
}

// end stops a marked machine and removes it.
func (all *Machines) end(ctx context.Context, id identity.ID) error {
	unlock, err := all.store.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	if there, err := store.Exists(all.store.Dir(id)); err != nil || !there {
		return err
	}
	_, p, err := all.look(string(id))
	if err != nil {
		return err
	}
	if err := all.stop(ctx, id, p); err != nil {
		return err
	}
	return all.store.Remove(id)
}

// stop ends the process of a machine and everything in its session: politely,
// then not. The caller holds the machine's lock.
func (all *Machines) stop(ctx context.Context, id identity.ID, p process.ID) error {
	opened, err := all.host.Open(p)
	if err == nil {
		err = terminate(ctx, opened)
		opened.Close()
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return all.host.KillStrays(ctx, p, all.store.Dir(id))
}

// kill ends them as a loss of power does. The caller holds the machine's lock.
func (all *Machines) kill(ctx context.Context, id identity.ID, p process.ID) error {
	opened, err := all.host.Open(p)
	if err == nil {
		if err = opened.SignalGroup(unix.SIGKILL); err == nil {
			err = opened.Wait(ctx)
		}
		opened.Close()
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return all.host.KillStrays(ctx, p, all.store.Dir(id))
}

func terminate(ctx context.Context, h process.Handle) error {
	if err := h.SignalGroup(unix.SIGTERM); err != nil {
		return err
	}
	polite, cancel := context.WithTimeout(ctx, grace)
	err := h.Wait(polite)
	cancel()
	if err == nil || ctx.Err() != nil {
		return err
	}
	if err := h.SignalGroup(unix.SIGKILL); err != nil {
		return err
	}
	return h.Wait(ctx)
}

// sweep forgets marks that no create can be late for any more, and clears away
// what crashes left, every few minutes. What it cannot remove it leaves for the
// next time.
func (all *Machines) sweep() {
	now := all.opts.Now()
	all.mu.Lock()
	due := now.Sub(all.swept) >= sweeping
	if due {
		all.swept = now
	}
	all.mu.Unlock()
	if !due {
		return
	}
	all.store.Sweep(now)
}
