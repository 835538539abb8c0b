package proxmox

import (
	"context"
	"errors"

	pve "github.com/luthermonson/go-proxmox"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// Power switches a machine on or off, or starts it anew. An action that its node has
// accepted goes on when ctx ends.
func (d *Driver) Power(ctx context.Context, ref driver.Ref, action driver.PowerAction) error {
	const op = "power"
	if err := ctx.Err(); err != nil {
		return failAs(driver.Transient, op, err)
	}
	if err := action.Validate(); err != nil {
		return failAs(driver.Invalid, op, err)
	}
	if _, err := identity.ParseID(string(ref.InstanceID)); err != nil {
		return failAs(driver.Invalid, op, err)
	}
	leave, err := d.ids.take(ctx, string(ref.InstanceID))
	if err != nil {
		return failAs(driver.Transient, op, err)
	}
	defer leave()
	if err := d.power(ctx, ref, action); err != nil {
		return fail(op, err)
	}
	return nil
}

func (d *Driver) power(ctx context.Context, ref driver.Ref, action driver.PowerAction) error {
	if d.reg.marked(ref.InstanceID) {
		return be(driver.Invalid, "%s was deleted", ref.InstanceID)
	}
	_, found, err := d.find(ctx, ref)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return be(driver.NotFound, "no machine is called %s", ref.InstanceID)
	}
	m := found[0].at
	vm, err := d.api.current(ctx, m)
	if err != nil {
		return err
	}
	upid, err := d.switchTo(ctx, m, action, vm.Status == "running")
	if err != nil {
		return err
	}
	err = d.api.wait(ctx, upid, nil)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil // accepted, and not over
	}
	return err
}

// switchTo begins an action; there may be nothing to do.
func (d *Driver) switchTo(ctx context.Context, m at, action driver.PowerAction, runs bool) (pve.UPID, error) {
	switch {
	case action == driver.PowerOff && runs:
		return d.api.shutdown(ctx, m, longestGrace)
	case action == driver.PowerOff, action == driver.PowerOn && runs:
		return "", nil
	case action == driver.PowerReboot && !runs:
		return "", be(driver.Invalid, "the machine does not run")
	case action == driver.PowerReboot:
		return d.api.reboot(ctx, m)
	case action == driver.PowerCycle && runs:
		return d.api.reset(ctx, m)
	}
	return d.api.start(ctx, m)
}
