package creation

import (
	"context"
	"errors"
	"fmt"
	"time"

	pve "github.com/luthermonson/go-proxmox"

	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/cluster"
	"nstance.dev/providers/proxmox/machines"
	"nstance.dev/providers/proxmox/metadata"
	"nstance.dev/server/driver"
)

// clone copies the template, in turn with others onto the same storage. If the
// number turns out to be taken the next one is tried.
func (cr *Creator) clone(ctx context.Context, j *job) error {
	if err := cr.queue(ctx, j); err != nil {
		return err
	}
	for range numberTries {
		err := cr.cloneOnce(ctx, j)
		p := cr.reg.progress(j)
		if api.NumberTaken(err, p.at.Number) {
			ours, settled := cr.settle(ctx, j, p.at)
			if settled != nil {
				return settled
			}
			if !ours {
				if err := cr.renumber(ctx, j); err != nil {
					return err
				}
				continue
			}
			err = nil
		}
		if err == nil {
			j.release()
		}
		return err
	}
	return api.Errorf(driver.Transient, "%w", api.ErrNumberTaken)
}

// numberTries is how often a number may be taken by somebody else.
const numberTries = 10

// queue waits for the storage, which is held until the clone has ended.
func (cr *Creator) queue(ctx context.Context, j *job) error {
	if j.leave.Load() != nil || j.upid != "" || j.unanswered {
		return nil
	}
	name := j.want.Storage
	if !j.from.shared {
		name += "@" + cr.target(j)
	}
	leave, err := cr.clones.Take(ctx, name)
	if err != nil {
		return api.Errorf(driver.Throttled, "storage %s: timed out waiting for other clones: %w", name, err)
	}
	j.leave.Store(&leave)
	return nil
}

func (cr *Creator) target(j *job) string { return cr.reg.progress(j).at.Node }

// cloneOnce sends the clone, unless it is under way, and waits for it.
func (cr *Creator) cloneOnce(ctx context.Context, j *job) error {
	if j.upid == "" {
		p := cr.reg.progress(j)
		cr.reg.update(j, func(p *progress) { p.sent = true })
		upid, err := cr.api.Clone(ctx, j.from.template.VM, j.cloneOptions(p.at))
		if err != nil {
			return cr.cloneRefused(j, err)
		}
		j.upid = upid
	}
	err := cr.await(ctx, j)
	if err != nil && j.upid == "" && !api.NumberTaken(err, cr.reg.progress(j).at.Number) && api.KindOf(err) == driver.Invalid {
		j.unanswered = true // the task is not known any more, and what became of it neither
		return fmt.Errorf("%w: %w", machines.ErrMayExist, err)
	}
	return err
}

// cloneRefused says whether there may be a machine after a clone that was not accepted.
func (cr *Creator) cloneRefused(j *job, err error) error {
	var r *api.Refusal
	if refused := errors.As(err, &r) && !api.Broken(err); refused || api.KindOf(err) == driver.Transient {
		if !j.unanswered {
			cr.reg.update(j, func(p *progress) { p.sent = false })
		}
		return err
	}
	j.unanswered = true
	return fmt.Errorf("%w: %w", machines.ErrMayExist, err)
}

// cloneOptions say what the copy is called from the start, so that it is known even
// if nothing else is done to it.
func (j *job) cloneOptions(m api.VM) *pve.VirtualMachineCloneOptions {
	o := &pve.VirtualMachineCloneOptions{
		NewID: m.Number, Name: string(j.request.InstanceID), Pool: j.want.Pool,
		Description: metadata.NotesOf(j.request).Within(j.from.template.Description),
	}
	if j.from.full {
		o.Full, o.Storage = true, j.want.Storage
	}
	if m.Node != j.from.template.Node {
		o.Target = m.Node
	}
	return o
}

// renumber takes the next number.
func (cr *Creator) renumber(ctx context.Context, j *job) error {
	list, err := cr.api.Resources(ctx)
	if err != nil {
		return err
	}
	number, err := cr.numbers.take(append(cluster.UsedNumbers(list), cr.reg.progress(j).at.Number))
	j.unanswered, j.upid = false, ""
	cr.reg.update(j, func(p *progress) { p.at.Number, p.sent = number, false })
	return err
}

// lateClone is how long a clone may take to show whose answer was lost.
const lateClone = 10 * time.Second

// settle finds out whether the machine that has a number is the one that a clone of
// ours made. While it is being made, that cannot be seen.
func (cr *Creator) settle(ctx context.Context, j *job, m api.VM) (ours bool, err error) {
	for {
		c, err := cr.machines.Cluster(ctx)
		if err != nil {
			return false, fmt.Errorf("%w: %w", machines.ErrMayExist, err)
		}
		s, there := c.Numbered(m.Number)
		if !there {
			return false, nil
		}
		if s.Lock != cluster.LockClone {
			config, err := cr.api.Config(ctx, s.VM)
			if err == nil {
				return config.Name == string(j.request.InstanceID), nil
			}
			if api.KindOf(err) != driver.NotFound {
				return false, fmt.Errorf("%w: %w", machines.ErrMayExist, err)
			}
		}
		select {
		case <-time.After(api.LongestPause):
		case <-ctx.Done():
			return false, fmt.Errorf("%w: %w", machines.ErrMayExist, ctx.Err())
		}
	}
}
