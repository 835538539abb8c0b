package machines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/local/process"
	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

// Halt stops the owner's running machines and returns when none runs any more.
// Machines whose end was asked for are ended. Machines that had failed stay so.
func (all *Machines) Halt(ctx context.Context, owner driver.Owner) error {
	return all.together(ctx, "halt", owner, all.halt)
}

// Resume starts the owner's machines that [Machines.Halt] or a reboot of the box
// stopped, in their old directories, and returns how many.
func (all *Machines) Resume(ctx context.Context, owner driver.Owner) (int, error) {
	var resumed atomic.Int64
	err := all.together(ctx, "resume", owner, func(ctx context.Context, id identity.ID) error {
		did, err := all.resume(ctx, id)
		if did {
			resumed.Add(1)
		}
		return err
	})
	return int(resumed.Load()), err
}

// Power switches one machine. Off asks its processes to end; off-hard and cycle
// do not. They return when it does not run any more. A machine that failed can be started
// again too, by on or by cycle: its directory is still there.
func (all *Machines) Power(ctx context.Context, ref driver.Ref, action driver.PowerAction) error {
	const op = "power"
	if err := ctx.Err(); err != nil {
		return driver.Fail(driver.Transient, op, err)
	}
	if err := action.Validate(); err != nil {
		return driver.Fail(driver.Invalid, op, err)
	}
	id, err := store.Resolve(op, ref)
	if err != nil {
		return err
	}
	found := false
	err = all.locked(ctx, id, func(ctx context.Context, id identity.ID) error {
		found = true
		return all.switchPower(ctx, id, action)
	})
	var e *driver.Error
	switch {
	case errors.As(err, &e):
		return err
	case err != nil:
		return driver.Fail(driver.Ambiguous, op, fmt.Errorf("%s %s: %w", action, id, err))
	case !found:
		return driver.Fail(driver.NotFound, op, fmt.Errorf("%s does not exist", id))
	}
	return nil
}

// PowerActions are all.
func (all *Machines) PowerActions(ctx context.Context, ref driver.Ref) (offers []driver.PowerAction, err error) {
	const op = "power-actions"
	if err := ctx.Err(); err != nil {
		return nil, driver.Fail(driver.Transient, op, err)
	}
	id, err := store.Resolve(op, ref)
	if err != nil {
		return nil, err
	}
	found := false
	err = all.locked(ctx, id, func(_ context.Context, id identity.ID) error {
		found = true
		s, _, err := all.look(string(id))
		if err == nil && s.status() != driver.Deleting {
			offers = driver.PowerActions()
		}
		return err
	})
	switch {
	case err != nil:
		return nil, driver.Fail(driver.Transient, op, fmt.Errorf("%s: %w", id, err))
	case !found:
		return nil, driver.Fail(driver.NotFound, op, fmt.Errorf("%s does not exist", id))
	}
	return offers, nil
}

// switchPower does its work with the machine's lock held.
func (all *Machines) switchPower(ctx context.Context, id identity.ID, action driver.PowerAction) error {
	s, p, err := all.look(string(id))
	if err != nil {
		return err
	}
	status := s.status()
	switch {
	case status == driver.Deleting, status == driver.Stopped && action == driver.PowerReboot:
		return driver.Fail(driver.Invalid, "power", fmt.Errorf("%s: %s is %s", action, id, status))
	case action == driver.PowerOn && (status == driver.Running || status == driver.Pending):
		return nil
	}
	end := all.stop
	if action == driver.PowerCycle || action == driver.PowerOffHard {
		end = all.kill
	}
	if err := all.powerOff(ctx, id, p, end); err != nil || action == driver.PowerOff || action == driver.PowerOffHard {
		return err
	}
	_, err = all.resume(ctx, id)
	return err
}

// together does one thing to every machine of the owner, many at once, each
// with its lock held.
func (all *Machines) together(ctx context.Context, op string, owner driver.Owner, do func(context.Context, identity.ID) error) error {
	var ids []identity.ID
	err := all.store.Each(ctx, owner, func(name string, meta store.Metadata) error {
		if string(meta.InstanceID) == name {
			ids = append(ids, meta.InstanceID)
		}
		return nil
	})
	if err != nil {
		return driver.Fail(driver.Transient, op, err)
	}
	var mu sync.Mutex
	var errs []error
	var g errgroup.Group
	g.SetLimit(64)
	for _, id := range ids {
		g.Go(func() error {
			if err := all.locked(ctx, id, do); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("%s: %w", id, err))
			}
			return nil // the others are to be tried all the same
		})
	}
	_ = g.Wait()
	if len(errs) > 0 {
		return driver.Fail(driver.Ambiguous, op, errors.Join(errs...))
	}
	return nil
}

// locked does something to a machine that still exists once its lock is held.
func (all *Machines) locked(ctx context.Context, id identity.ID, do func(context.Context, identity.ID) error) error {
	unlock, err := all.store.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	if there, err := store.Exists(all.store.Dir(id)); err != nil || !there {
		return err
	}
	return do(ctx, id)
}

func (all *Machines) halt(ctx context.Context, id identity.ID) error {
	s, p, err := all.look(string(id))
	if err != nil {
		return err
	}
	switch s.status() {
	case driver.Deleting:
		if err := all.stop(ctx, id, p); err != nil {
			return err
		}
		return all.store.Remove(id)
	case driver.Running, driver.Pending, driver.Stopping:
		return all.powerOff(ctx, id, p, all.stop)
	}
	return nil
}

// powerOff ends the processes of a machine so that it counts as stopped and can be
// resumed.
func (all *Machines) powerOff(ctx context.Context, id identity.ID, p process.ID,
	end func(context.Context, identity.ID, process.ID) error,
) error {
	// The marker comes first: if we die now, a dead process is no failure.
	if err := os.WriteFile(filepath.Join(all.store.Dir(id), store.StoppedFile), nil, 0o600); err != nil {
		return err
	}
	if err := end(ctx, id, p); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(all.store.Dir(id), store.PIDFile)) // a stopped machine has no pid
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (all *Machines) resume(ctx context.Context, id identity.ID) (bool, error) {
	s, p, err := all.look(string(id))
	if err != nil {
		return false, err
	}
	switch s.status() {
	case driver.Stopping: // a halt that did not come to its end
		if err := all.stop(ctx, id, p); err != nil {
			return false, err
		}
	case driver.Stopped:
		if s.off && !s.reboot {
			return false, nil // it has switched itself off, and stays off until it is switched on
		}
	default:
		return false, nil
	}
	if err := store.Forget(all.store.Dir(id)); err != nil {
		return false, err
	}
	return true, all.start(id)
}
