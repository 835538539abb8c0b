package proxmox

import (
	"context"
	"errors"
	"fmt"
	"time"

	pve "github.com/luthermonson/go-proxmox"

	"nstance.dev/server/driver"
)

// clone copies the template, in turn with others onto the same storage. If the
// number turns out to be taken the next one is tried.
func (d *Driver) clone(ctx context.Context, j *job) error {
	if err := d.queue(ctx, j); err != nil {
		return err
	}
	for range numberTries {
		err := d.cloneOnce(ctx, j)
		p := d.reg.progress(j)
		if numberTaken(err, p.at.vmid) {
			ours, settled := d.settle(ctx, j, p.at)
			if settled != nil {
				return settled
			}
			if !ours {
				if err := d.renumber(ctx, j); err != nil {
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
	return be(driver.Transient, "%w", errNumberTaken)
}

// numberTries is how often a number may be taken by somebody else.
const numberTries = 10

// queue waits for the storage, which is held until the clone has ended.
func (d *Driver) queue(ctx context.Context, j *job) error {
	if j.leave.Load() != nil || j.upid != "" || j.doubt {
		return nil
	}
	name := j.want.Storage
	if !j.shared {
		name += "@" + d.target(j)
	}
	leave, err := d.clones.take(ctx, name)
	if err != nil {
		return be(driver.Throttled, "storage %s: other clones were not done in time: %w", name, err)
	}
	j.leave.Store(&leave)
	return nil
}

func (d *Driver) target(j *job) string { return d.reg.progress(j).at.node }

// cloneOnce sends the clone, unless it is under way, and waits for it.
func (d *Driver) cloneOnce(ctx context.Context, j *job) error {
	if j.upid == "" {
		p := d.reg.progress(j)
		d.reg.update(j, func(p *progress) { p.sent = true })
		upid, err := d.api.clone(ctx, j.template.at, j.cloneOptions(p.at))
		if err != nil {
			return d.cloneRefused(j, err)
		}
		j.upid = upid
	}
	err := d.await(ctx, j)
	if err != nil && j.upid == "" && !numberTaken(err, d.reg.progress(j).at.vmid) && kindOf(err) == driver.Invalid {
		j.doubt = true // the task is not known any more, and what became of it neither
		return fmt.Errorf("%w: %w", errOpen, err)
	}
	return err
}

// cloneRefused says whether there may be a machine after a clone that was not accepted.
func (d *Driver) cloneRefused(j *job, err error) error {
	var r *refusal
	if refused := errors.As(err, &r) && !broken(err); refused || kindOf(err) == driver.Transient {
		if !j.doubt {
			d.reg.update(j, func(p *progress) { p.sent = false })
		}
		return err
	}
	j.doubt = true
	return fmt.Errorf("%w: %w", errOpen, err)
}

// cloneOptions say what the copy is called from the start, so that it is known even
// if nothing else is done to it.
func (j *job) cloneOptions(m at) *pve.VirtualMachineCloneOptions {
	o := &pve.VirtualMachineCloneOptions{
		NewID: m.vmid, Name: string(j.request.InstanceID), Pool: j.want.Pool,
		Description: notesOf(j.request).within(j.template.description),
	}
	if j.full {
		o.Full, o.Storage = true, j.want.Storage
	}
	if m.node != j.template.node {
		o.Target = m.node
	}
	return o
}

// renumber takes the next number.
func (d *Driver) renumber(ctx context.Context, j *job) error {
	list, err := d.api.resources(ctx)
	if err != nil {
		return err
	}
	number, err := d.numbers.take(append(usedNumbers(list), d.reg.progress(j).at.vmid))
	j.doubt, j.upid = false, ""
	d.reg.update(j, func(p *progress) { p.at.vmid, p.sent = number, false })
	return err
}

// lateClone is how long a clone may take to show whose answer was lost.
const lateClone = 10 * time.Second

// settle finds out whether the machine that has a number is the one that a clone of
// ours made. While it is being made, that cannot be seen.
func (d *Driver) settle(ctx context.Context, j *job, m at) (ours bool, err error) {
	for {
		c, err := d.cluster(ctx)
		if err != nil {
			return false, fmt.Errorf("%w: %w", errOpen, err)
		}
		s, there := c.numbered(m.vmid)
		if !there {
			return false, nil
		}
		if s.lock != lockClone {
			config, err := d.api.config(ctx, s.at)
			if err == nil {
				return config.Name == string(j.request.InstanceID), nil
			}
			if kindOf(err) != driver.NotFound {
				return false, fmt.Errorf("%w: %w", errOpen, err)
			}
		}
		select {
		case <-time.After(longestLook):
		case <-ctx.Done():
			return false, fmt.Errorf("%w: %w", errOpen, ctx.Err())
		}
	}
}

// numbered returns the machine that has a number.
func (c cluster) numbered(vmid int) (sighting, bool) {
	for _, s := range c.machines {
		if s.vmid == vmid {
			return s, true
		}
	}
	return sighting{}, false
}
